import { defineKind, type Manager } from '@echoperator/runtime';
import type { DefinedController } from '@echoperator/runtime/controller';
import { Secret } from '@echoperator/runtime/kinds';
import { type Simulation, simulate } from '@echoperator/testing/simulation';
import { describe, expect, test } from '@jest/globals';
import * as Type from 'typebox';
import type { CaBundleTarget } from '../../../../packages/runtime/src/webhook-server/ca-bundle-target.ts';
import {
  CertificateRotation,
  type CertificateRotationOptions,
} from '../../../../packages/runtime/src/webhook-server/certificate-rotation.ts';
import type {
  Certificate,
  CertificateIssuer,
  CertificateReader,
} from '../../../../packages/runtime/src/webhook-server/pki.ts';
import { RecordingLog } from '../../../../testkit/recording-log.ts';

/** Takes the place of a webhook configuration. */
const Hook = defineKind({
  group: 'test.example',
  version: 'v1',
  kind: 'Hook',
  plural: 'hooks',
  scope: 'Cluster',
  description: 'Has a bundle.',
  spec: Type.Object({ bundle: Type.Optional(Type.String()) }),
  status: Type.Object({}),
});

const target: CaBundleTarget = {
  kind: Hook,
  name: 'hook',
  bundlesOf: (object) => [(object as unknown as { readonly spec: { readonly bundle?: string } }).spec.bundle],
  manifest: (_, bundle) => ({ metadata: { name: 'hook' }, spec: { bundle } }) as never,
};

/** Certificates that are lines of JSON, because real keys are made by threads that a simulation cannot control. */
interface FakeCertificate extends Omit<Certificate, 'pem'> {
  readonly key: string;
  readonly issuer: string;
}
const contentsOf = ({ pem }: Certificate): FakeCertificate => JSON.parse(pem) as FakeCertificate;
const reader: CertificateReader = {
  read: (text) =>
    text
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => ({ ...(JSON.parse(line) as FakeCertificate), pem: `${line}\n` })),
  fits: (certificate, key) => contentsOf(certificate).key === key,
  isIssuedBy: (certificate, authority) => contentsOf(certificate).issuer === contentsOf(authority).key,
};
const fakeIssuer = (): CertificateIssuer => {
  let count = 0;
  const create = (certificate: Omit<FakeCertificate, 'key'>) => {
    count += 1;
    const key = `key-${count}-${Math.random()}`;
    return { certificate: `${JSON.stringify({ ...certificate, key })}\n`, key };
  };
  return {
    canSignWith: (key) => key.startsWith('key-'),
    createAuthority: async (request) => create({ ...request, issuer: '' }),
    issue: async (request, { key }) => create({ ...request, issuer: key }),
  };
};

const hourMs = 3_600_000;
/** Shorter than in production, because the operator checks everything once an hour. */
const times = { authorityLifetimeMs: 18 * hourMs, servingLifetimeMs: 6 * hourMs };
const secretKey = { namespace: 'default', name: 'certificates' };

/** Adds the rotation to the operator of a simulation, as the service of the webhooks does. */
const rotationOf = (options: Partial<CertificateRotationOptions> = {}): DefinedController => ({
  kind: Hook,
  name: 'rotation',
  children: [],
  reasons: {},
  permissions: [],
  finalizer: undefined,
  add: ({ manager }) => {
    const rotation = new CertificateRotation(manager.client, {
      secret: secretKey,
      targets: [target],
      names: ['hooks.default.svc'],
      fieldManager: 'certificates',
      reader,
      issuer: fakeIssuer(),
      log: manager.log,
      times,
      ...options,
    });
    (manager as Manager).task((signal) => rotation.run(signal));
    return { name: 'rotation', remove: async () => {} };
  },
});

const text = (encoded: string | undefined): string => Buffer.from(encoded ?? '', 'base64').toString();

interface State {
  readonly authorities: readonly Certificate[];
  readonly serving: Certificate | undefined;
  readonly trusted: readonly Certificate[] | undefined;
}

function stateOf(simulation: Pick<Simulation, 'objects'>): State {
  const data = simulation.objects(Secret)[0]?.data ?? {};
  const hook = simulation.objects(Hook)[0];
  return {
    authorities: reader.read(text(data['ca.crt'])),
    serving: reader.read(text(data['tls.crt']))[0],
    trusted: hook && reader.read(text(hook.spec.bundle)),
  };
}

/**
 * Checks that a certificate appears only when its authority has been trusted for the propagation time, so that API
 * servers with an older configuration accept it too. The first certificate of an installation need not wait.
 */
class PropagationCheck {
  readonly #trustedSinceMs = new Map<string, number>();
  #serving: string | undefined;

  problemOf({ serving, trusted = [] }: State, nowMs: number): string | undefined {
    for (const { pem } of trusted) if (!this.#trustedSinceMs.has(pem)) this.#trustedSinceMs.set(pem, nowMs);
    if (serving === undefined || serving.pem === this.#serving) return undefined;
    const isFirst = this.#serving === undefined;
    this.#serving = serving.pem;
    const authority = trusted.find((each) => reader.isIssuedBy(serving, each));
    const trustedForMs = nowMs - (this.#trustedSinceMs.get(authority?.pem ?? '') ?? nowMs);
    return isFirst || trustedForMs >= 29_000 ? undefined : `the authority was trusted for ${trustedForMs} ms`;
  }
}

/** What must hold after each change: who asks for the certificate trusts its authority. */
function problemOf({ serving, trusted }: State, nowMs: number): string | undefined {
  if (serving === undefined || trusted === undefined) return undefined;
  if (!trusted.some((authority) => reader.isIssuedBy(serving, authority))) return 'the certificate is not trusted';
  return serving.notAfterMs > nowMs ? undefined : 'the certificate has expired';
}

const before = async (client: Parameters<NonNullable<Parameters<typeof simulate>[0]['before']>>[0]) => {
  await client.create(Secret, { metadata: secretKey });
  await client.create(Hook, { metadata: { name: 'hook' }, spec: {} });
};

type Request = Parameters<NonNullable<Parameters<typeof simulate>[0]['refuse']>>[0];

const isOperatorsWrite = ({ verb, from }: Request) => from !== 'user' && (verb === 'patch' || verb === 'apply');

describe('a new installation', () => {
  test('has a trusted certificate at once', () =>
    simulate({ controllers: [rotationOf()], before }, async (simulation) => {
      await simulation.advance(1000);
      const { authorities, serving, trusted } = stateOf(simulation);
      expect(authorities).toHaveLength(1);
      expect(trusted).toEqual(authorities);
      expect(serving?.names).toEqual(['hooks.default.svc']);
      expect(serving && reader.isIssuedBy(serving, authorities[0]!)).toBe(true);
      // A clock that is half an hour behind accepts it.
      expect(serving?.notBeforeMs).toBeLessThanOrEqual(simulation.nowMs - hourMs / 2);
    }));

  test('waits for a Secret that is created later, and never creates it', () =>
    simulate({ controllers: [rotationOf()] }, async (simulation) => {
      await simulation.client.create(Hook, { metadata: { name: 'hook' }, spec: {} });
      await simulation.advance(60_000);
      expect(simulation.objects(Secret)).toEqual([]);
      await simulation.client.create(Secret, { metadata: secretKey });
      await simulation.advance(1000);
      expect(stateOf(simulation).serving).toBeDefined();
    }));

  test('trusts a configuration that is created later', () =>
    simulate({ controllers: [rotationOf()] }, async (simulation) => {
      await simulation.client.create(Secret, { metadata: secretKey });
      await simulation.advance(1000);
      await simulation.client.create(Hook, { metadata: { name: 'hook' }, spec: {} });
      await simulation.advance(1000);
      expect(stateOf(simulation).trusted).toEqual(stateOf(simulation).authorities);
    }));
});

describe('over several lifetimes', () => {
  test('renews both, always trusts what is served, and forgets expired authorities', () => {
    let simulated: Simulation | undefined;
    const problems: string[] = [];
    const propagation = new PropagationCheck();
    const served = new Set<string>();
    const authorities = new Set<string>();
    const refuse = () => {
      if (simulated === undefined) return undefined;
      const state = stateOf(simulated);
      const problem = problemOf(state, simulated.nowMs) ?? propagation.problemOf(state, simulated.nowMs);
      if (problem !== undefined) problems.push(problem);
      if (state.serving !== undefined) served.add(state.serving.pem);
      for (const { pem } of state.authorities) authorities.add(pem);
      return undefined;
    };
    return simulate({ controllers: [rotationOf()], before, refuse }, async (simulation) => {
      await simulation.advance(1000);
      simulated = simulation;
      for (let hour = 0; hour < 40; hour += 1) await simulation.advance(hourMs);
      expect(problems).toEqual([]);
      expect(authorities.size).toBeGreaterThanOrEqual(4);
      expect(authorities.size).toBeLessThanOrEqual(5);
      expect(served.size).toBeGreaterThan(40 / 6);
      expect(served.size).toBeLessThan(40 / 2);
      expect(stateOf(simulation).trusted?.length).toBeLessThanOrEqual(2);
    });
  });
});

describe('crashes', () => {
  /** Lets time pass, and starts another process if the operator has crashed. */
  const advance = async (simulation: Simulation, ms: number): Promise<void> => {
    try {
      await simulation.advance(ms);
    } catch (error) {
      if (simulation.processes.length > 0) throw error;
      await simulation.start();
    }
  };

  /** Crashes the operator at its n-th write. @returns whether there were so many writes */
  const runWithCrash = async (crashAt: number, how: 'unsent' | 'committed'): Promise<boolean> => {
    let simulated: Simulation | undefined;
    let writes = 0;
    const problems: string[] = [];
    const propagation = new PropagationCheck();
    const refuse = (request: Request) => {
      if (simulated === undefined) return undefined;
      const state = stateOf(simulated);
      const problem = problemOf(state, simulated.nowMs) ?? propagation.problemOf(state, simulated.nowMs);
      if (problem !== undefined) problems.push(problem);
      if (!isOperatorsWrite(request)) return undefined;
      writes += 1;
      if (writes !== crashAt) return undefined;
      for (const process of simulated.processes) simulated.crash(process);
      return how === 'committed' ? undefined : { code: 500, reason: 'InternalError', message: 'the operator crashed' };
    };
    await simulate({ controllers: [rotationOf()], before, refuse }, async (simulation) => {
      simulated = simulation;
      for (let hour = 0; hour < 13; hour += 1) {
        await advance(simulation, hourMs);
      }
      // The Secret is lost: its authority is only in the bundle now.
      await simulation.client.patch(Secret, secretKey, { type: 'merge', body: { data: null } });
      for (let minute = 0; minute < 4; minute += 1) {
        await advance(simulation, 60_000);
      }
      const { serving, authorities, trusted } = stateOf(simulation);
      expect(problems).toEqual([]);
      expect(serving && reader.isIssuedBy(serving, authorities[0]!)).toBe(true);
      expect(trusted).toEqual(authorities);
    });
    return writes >= crashAt;
  };

  test.each(['unsent', 'committed'] as const)('at every write (%s) end in a trusted certificate', async (how) => {
    let crashes = 0;
    while (await runWithCrash(crashes + 1, how)) crashes += 1;
    expect(crashes).toBeGreaterThan(8);
  });
});

describe('other clients', () => {
  const advance = async (simulation: Simulation, ms: number) => {
    await simulation.advance(ms);
    return stateOf(simulation);
  };

  test('a replaced bundle is repaired, and one that is replaced again and again after pauses', () => {
    let writes = 0;
    const refuse = (request: Request) => {
      if (isOperatorsWrite(request)) writes += 1;
      return undefined;
    };
    return simulate({ controllers: [rotationOf()], before, refuse }, async (simulation) => {
      await advance(simulation, 1000);
      writes = 0;
      for (let round = 0; round < 60; round += 1) {
        await simulation.client.patch(Hook, { name: 'hook' }, { type: 'merge', body: { spec: { bundle: 'mine' } } });
        await simulation.advance(1000);
        if (round === 0) expect(stateOf(simulation).trusted).toHaveLength(1);
      }
      expect(writes).toBeGreaterThan(5);
      expect(writes).toBeLessThan(10);
      expect((await advance(simulation, 60_000)).trusted).toHaveLength(1);
    });
  });

  test('the certificate of somebody else is never overwritten', () => {
    const log = new RecordingLog();
    const data = {
      'tls.crt': Buffer.from('foreign').toString('base64'),
      'tls.key': Buffer.from('key').toString('base64'),
    };
    return simulate({ controllers: [rotationOf()], log }, async (simulation) => {
      await simulation.client.create(Secret, { metadata: secretKey, data });
      await simulation.advance(3 * hourMs);
      expect(simulation.objects(Secret)[0]?.data).toEqual(data);
      expect(log.messages('warn')).toEqual([expect.stringContaining('certificate of somebody else')]);
    });
  });

  test('a provided Secret is published with the authorities that were trusted before, and never written', async () => {
    const issuer = fakeIssuer();
    await simulate({ controllers: [rotationOf({ issuer: undefined })] }, async (simulation) => {
      const validity = { notBeforeMs: simulation.nowMs, notAfterMs: simulation.nowMs + 6 * hourMs, names: [] };
      const [one, two] = [await issuer.createAuthority(validity), await issuer.createAuthority(validity)];
      const dataOf = (certificate: string) => ({ 'ca.crt': Buffer.from(certificate).toString('base64') });
      await simulation.client.create(Hook, { metadata: { name: 'hook' }, spec: {} });
      await simulation.client.create(Secret, { metadata: secretKey, data: dataOf(one.certificate) });
      const first = await advance(simulation, 1000);
      expect(first.trusted?.map(({ pem }) => pem)).toEqual([one.certificate]);
      await simulation.client.patch(Secret, secretKey, { type: 'merge', body: { data: dataOf(two.certificate) } });
      const second = await advance(simulation, 1000);
      expect(second.trusted?.map(({ pem }) => pem)).toEqual([two.certificate, one.certificate]);
      expect(simulation.objects(Secret)[0]?.data).toEqual(dataOf(two.certificate));
    });
  });

  test('a certificate that is never usable is not created again and again without a pause', () => {
    let writes = 0;
    const refuse = (request: Request) => {
      if (isOperatorsWrite(request) && request.kind === Secret) writes += 1;
      if (writes > 1000) throw new Error('there is no pause');
      return undefined;
    };
    // As if the authority were no authority, or a tool removed what is written.
    const controllers = [rotationOf({ reader: { ...reader, isIssuedBy: () => false } })];
    return simulate({ controllers, before, refuse }, async (simulation) => {
      await simulation.advance(600_000);
      expect(writes).toBeGreaterThan(10);
      expect(writes).toBeLessThan(50);
    });
  });

  test('an authority of a clock that was far ahead is replaced', async () => {
    const issuer = fakeIssuer();
    await simulate({ controllers: [rotationOf()] }, async (simulation) => {
      const validity = { notBeforeMs: simulation.nowMs + 9 * hourMs, notAfterMs: simulation.nowMs + 27 * hourMs };
      const ahead = await issuer.createAuthority({ ...validity, names: [] });
      const serving = await issuer.issue({ ...validity, names: ['hooks.default.svc'] }, ahead);
      const texts = {
        'ca.crt': ahead.certificate,
        'ca.key': ahead.key,
        'tls.crt': serving.certificate,
        'tls.key': serving.key,
      };
      const data = Object.fromEntries(
        Object.entries(texts).map(([member, value]) => [member, Buffer.from(value).toString('base64')]),
      );
      await simulation.client.create(Hook, { metadata: { name: 'hook' }, spec: {} });
      await simulation.client.create(Secret, { metadata: secretKey, data });
      await simulation.advance(60_000);
      const state = stateOf(simulation);
      expect(state.serving?.notBeforeMs).toBeLessThanOrEqual(simulation.nowMs);
      expect(state.authorities[0]?.notBeforeMs).toBeLessThanOrEqual(simulation.nowMs);
      expect(problemOf(state, simulation.nowMs)).toBeUndefined();
    });
  });

  test('an operator with other names, which leads in turn, keeps the certificate', () => {
    const names = [['old.default.svc'], ['new.default.svc']] as const;
    let started = 0;
    const either: DefinedController = {
      ...rotationOf(),
      add: (host) => rotationOf({ names: names[started++ % 2]! }).add(host),
    };
    const served = new Set<string>();
    return simulate({ controllers: [either], before }, async (simulation) => {
      for (let round = 0; round < 6; round += 1) {
        const { serving } = await advance(simulation, 120_000);
        served.add(serving?.pem ?? '');
        for (const process of simulation.processes) simulation.crash(process);
        await simulation.start();
      }
      expect(served.size).toBe(2);
    });
  });
});

test('refuses lifetimes that would let a certificate outlive its authority', () => {
  const options = { issuer: undefined, times: { authorityLifetimeMs: hourMs, servingLifetimeMs: hourMs } };
  expect(() => rotationOf(options).add({ manager: { log: new RecordingLog(), task: () => {} } } as never)).toThrow(
    'at most a third of authorityLifetimeMs',
  );
});
