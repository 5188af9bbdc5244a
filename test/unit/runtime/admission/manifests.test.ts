import { defineKind } from '@echoperator/runtime';
import {
  defineAdmission,
  validatingAdmissionPolicies,
  webhookManifests,
  webhookPermissions,
} from '@echoperator/runtime/admission';
import { expect, test } from '@jest/globals';
import * as Type from 'typebox';

const Card = defineKind({
  group: 'example.com',
  version: 'v1',
  kind: 'Card',
  plural: 'cards',
  description: 'Has a text.',
  spec: Type.Object({ text: Type.String() }),
  status: Type.Object({}),
});

const settings = { name: 'cards', namespace: 'system', serviceAccount: 'cards', podLabels: { app: 'cards' } };
const validating = defineAdmission(Card, { validate: () => [] });
const ruled = defineAdmission(Card, {
  rules: [{ rule: 'object.spec.text.size() <= params.data.size', message: 'too long' }],
  paramKind: { apiVersion: 'v1', kind: 'ConfigMap' },
});

test('a webhook concerns no deletion, no status, no request of the operator and not its namespace', () => {
  const manifests = webhookManifests({ ...settings, admissions: [validating] });
  expect(manifests.map(({ kind }) => kind)).toEqual(['Secret', 'Service', 'ValidatingWebhookConfiguration']);
  expect(manifests[2]).toMatchObject({
    metadata: { name: 'cards' },
    webhooks: [
      {
        name: 'validate.cards.example.com',
        sideEffects: 'None',
        failurePolicy: 'Fail',
        timeoutSeconds: 5,
        rules: [{ operations: ['CREATE', 'UPDATE'], resources: ['cards'] }],
        clientConfig: { service: { name: 'cards-webhooks', namespace: 'system' } },
        namespaceSelector: { matchExpressions: [{ operator: 'NotIn', values: ['system'] }] },
        matchConditions: [
          { expression: '!has(object.metadata.deletionTimestamp)' },
          { expression: expect.stringContaining('"system:serviceaccount:system:cards"') },
        ],
      },
    ],
  });
  expect(JSON.stringify(manifests)).not.toContain('caBundle');
});

test('without functions there is no webhook', () => {
  expect(webhookManifests({ ...settings, admissions: [ruled] })).toEqual([]);
});

test('a provided Secret is neither created nor written', () => {
  const provided = { ...settings, admissions: [validating], isSecretProvided: true };
  expect(webhookManifests(provided).map(({ kind }) => kind)).not.toContain('Secret');
  expect(webhookPermissions(provided).role[0]?.verbs).toEqual(['get', 'list', 'watch']);
});

test('every right is limited to names, and none creates or deletes', () => {
  const { role, clusterRole } = webhookPermissions({ ...settings, admissions: [validating] });
  expect(role).toHaveLength(1);
  expect(clusterRole).toHaveLength(1);
  for (const rule of [...role, ...clusterRole]) {
    expect(rule.resourceNames).toHaveLength(1);
    expect(rule.verbs).toEqual(['get', 'list', 'watch', 'patch']);
  }
});

test('rules with params need the object of the params', () => {
  expect(() => validatingAdmissionPolicies([ruled])).toThrow('the rules of cards.example.com read params');
  const [policy, binding] = validatingAdmissionPolicies([ruled], { 'cards.example.com': { name: 'limits' } });
  expect(policy).toMatchObject({ spec: { paramKind: { kind: 'ConfigMap' } } });
  expect(binding).toMatchObject({ spec: { paramRef: { name: 'limits', parameterNotFoundAction: 'Deny' } } });
});
