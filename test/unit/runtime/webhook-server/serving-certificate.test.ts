import type { Secret } from '@echoperator/runtime/kinds';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { HttpClient } from '../../../../packages/runtime/src/client/http-client.ts';
import { Transport } from '../../../../packages/runtime/src/client/transport.ts';
import { certificateReader } from '../../../../packages/runtime/src/webhook-server/certificate-reader.ts';
import type { CertificateIssuer, KeyPair } from '../../../../packages/runtime/src/webhook-server/pki.ts';
import { followCertificate } from '../../../../packages/runtime/src/webhook-server/serving-certificate.ts';
import { loadX509Issuer } from '../../../../packages/runtime/src/webhook-server/x509-issuer.ts';
import { eventually } from '../../../../testkit/eventually.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';
import { ScriptedServer } from '../../environment/scripted-server.ts';

const key = { namespace: 'default', name: 'certificates' };
const path = '/api/v1/namespaces/default/secrets';

let api: ScriptedServer;
let transport: Transport;
let stop: AbortController;
let running: Promise<void>;
let issuer: CertificateIssuer;
let log: RecordingLog;
/** The certificates that were served, in order. */
let served: string[];

beforeEach(async () => {
  [api, issuer] = [await ScriptedServer.start(), await loadX509Issuer()];
  transport = new Transport(api.connection, { userAgent: 'test' });
  [stop, log, served] = [new AbortController(), new RecordingLog(), []];
});
afterEach(async () => {
  stop.abort();
  await running;
  await transport.close();
  await api.close();
});

const validity = { notBeforeMs: Date.now() - 60_000, notAfterMs: Date.now() + 3_600_000 };
const newAuthority = () => issuer.createAuthority({ ...validity, names: ['test'] });
const issueFrom = (authority: KeyPair) => issuer.issue({ ...validity, names: ['hooks.default.svc'] }, authority);

let version = 10;
function secretOf(authorities: readonly KeyPair[], { certificate, key: privateKey }: KeyPair): Secret {
  version += 1;
  const texts = {
    'ca.crt': authorities.map((authority) => authority.certificate).join(''),
    'tls.crt': certificate,
    'tls.key': privateKey,
  };
  const data = Object.fromEntries(
    Object.entries(texts).map(([member, text]) => [member, Buffer.from(text).toString('base64')]),
  );
  const metadata = { ...key, uid: 'u1', resourceVersion: String(version), creationTimestamp: '2030-01-01T00:00:00Z' };
  return { apiVersion: 'v1', kind: 'Secret', metadata, data };
}

async function follow(first: Secret, propagationMs: number) {
  const server = {
    setCertificate: ({ certificate }: KeyPair) => void served.push(certificate),
    get hasCertificate() {
      return served.length > 0;
    },
  };
  const client = new HttpClient(transport, 'test');
  const options = { client, secret: key, reader: certificateReader, server, propagationMs, log };
  running = followCertificate(options, stop.signal);
  const list = await api.next({ path, watch: false });
  expect(list.query.get('fieldSelector')).toBe('metadata.name=certificates');
  list.list('10', [first]);
  return (await api.next({ path, watch: true })).stream();
}

test('a certificate of a known authority is served at once, one of another authority later', async () => {
  const [one, two] = [await newAuthority(), await newAuthority()];
  const [first, second, third] = [await issueFrom(one), await issueFrom(one), await issueFrom(two)];
  const stream = await follow(secretOf([one], first), 1500);
  await eventually('the first is served', async () => served.length === 1);
  stream.send('MODIFIED', secretOf([one], second));
  await eventually('the second is served', async () => served.length === 2);
  stream.send('MODIFIED', secretOf([two], third));
  // A change of another member must not shorten the pause.
  stream.send('MODIFIED', secretOf([two], third));
  await eventually('the third waits', async () =>
    log.lines.some(({ message }) => message.includes('serving it later')),
  );
  expect(served).toHaveLength(2);
  await eventually('the third is served', async () => served.length === 3);
  expect(served).toEqual([first.certificate, second.certificate, third.certificate]);
});

test('an authority that the Secret has had before its certificate needs no pause', async () => {
  const [one, two] = [await newAuthority(), await newAuthority()];
  const [first, second] = [await issueFrom(one), await issueFrom(two)];
  const stream = await follow(secretOf([one], first), 3_600_000);
  stream.send('MODIFIED', secretOf([two, one], first));
  stream.send('MODIFIED', secretOf([two, one], second));
  await eventually('the second is served', async () => served.length === 2);
});

test('serves on while the Secret is empty, broken or deleted', async () => {
  const authority = await newAuthority();
  const [first, second] = [await issueFrom(authority), await issueFrom(authority)];
  const good = secretOf([authority], first);
  const stream = await follow(good, 1);
  stream.send('MODIFIED', { ...secretOf([authority], first), data: {} });
  stream.send('MODIFIED', secretOf([authority], { certificate: second.certificate, key: first.key }));
  await eventually('a warning', async () => log.messages('warn').some((message) => message.includes('do not match')));
  stream.send('DELETED', secretOf([authority], first));
  stream.send('ADDED', secretOf([authority], second));
  await eventually('the second is served', async () => served.length === 2);
  expect(JSON.stringify(log.lines)).not.toContain('PRIVATE KEY');
});
