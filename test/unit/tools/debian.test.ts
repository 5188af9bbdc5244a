import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import { ensureDebianPackages, PackagesError } from '../../../tools/debian.ts';
import { recordingDisplay } from './fake-program-source.ts';

/**
 * Fake commands. The file `installed` lists each installed package with what it provides; apt-get appends to it and
 * logs its calls.
 */
const commands = {
  'dpkg-query': 'sed "s/^/installed /" installed; echo "config-files gone, "',
  'apt-get': `
shift 2
echo "$*" >> calls
if [ "$1" = update ]; then rm -f stale; exit 0; fi
if [ -e stale ]; then echo 'E: Unable to locate package' >&2; exit 100; fi
shift 3
for name; do echo "$name, " >> installed; done`,
  dpkg: 'echo "dpkg $*" >> calls',
};

let folder: string;
let environment: NodeJS.ProcessEnv;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'debian-'));
  await mkdir(join(folder, 'bin'));
  for (const [name, script] of Object.entries(commands)) {
    await writeFile(join(folder, 'bin', name), `#!/bin/sh\ncd "$(dirname "$0")/.."\n${script}\n`);
    await chmod(join(folder, 'bin', name), 0o755);
  }
  await writeFile(join(folder, 'installed'), 'runc, \n');
  environment = { PATH: `${join(folder, 'bin')}:${process.env.PATH}`, XDG_CACHE_HOME: join(folder, 'cache') };
});

afterEach(async () => {
  jest.restoreAllMocks();
  await rm(folder, { recursive: true });
});

const beUser = (id: number) => jest.spyOn(process, 'getuid').mockReturnValue(id);
const read = (name: string) => readFile(join(folder, name), 'utf8').catch(() => '');

it('does nothing and needs no root if no package is missing', async () => {
  beUser(1000);
  await ensureDebianPackages(['runc'], { environment, display: recordingDisplay() });
  expect(await read('calls')).toBe('');
});

it('installs only missing packages, without recommended ones', async () => {
  beUser(0);
  await ensureDebianPackages(['runc', 'nftables', 'gone'], { environment, display: recordingDisplay() });
  expect(await read('calls')).toBe('install --yes --no-install-recommends nftables gone\n');
});

it('does not install a package that another one provides, like runc from Docker', async () => {
  beUser(0);
  await writeFile(join(folder, 'installed'), 'containerd.io, containerd, runc (= 1.3.0)\n');
  await ensureDebianPackages(['runc'], { environment, display: recordingDisplay() });
  expect(await read('calls')).toBe('');
});

it('updates the package lists if they are missing or old', async () => {
  beUser(0);
  await writeFile(join(folder, 'stale'), '');
  await ensureDebianPackages(['nftables'], { environment, display: recordingDisplay() });
  expect((await read('calls')).split('\n')).toEqual([
    'install --yes --no-install-recommends nftables',
    'dpkg --configure --pending',
    'update',
    'install --yes --no-install-recommends nftables',
    '',
  ]);
});

it('installs once for two concurrent calls', async () => {
  beUser(0);
  const ask = () => ensureDebianPackages(['nftables'], { environment, display: recordingDisplay() });
  await Promise.all([ask(), ask()]);
  expect(await read('installed')).toBe('runc, \nnftables, \n');
});

it('without root, fails with the command that installs the packages', async () => {
  beUser(1000);
  const asked = ensureDebianPackages(['runc', 'nftables', 'openssl'], { environment });
  await expect(asked).rejects.toThrow(
    new PackagesError(
      'the Debian packages nftables, openssl are missing, and only root can install them: sudo apt-get install --no-install-recommends nftables openssl',
    ),
  );
});

it('on another system, fails with the names of the packages', async () => {
  const asked = ensureDebianPackages(['runc'], { environment: { ...environment, PATH: join(folder, 'empty') } });
  await expect(asked).rejects.toThrow(/^the packages runc can be installed only on Debian/);
});

it("fails with apt-get's last output", async () => {
  beUser(0);
  await writeFile(join(folder, 'bin', 'apt-get'), "#!/bin/sh\necho 'E: no room on the disk'; exit 100\n");
  const asked = ensureDebianPackages(['nftables'], { environment, display: recordingDisplay() });
  await expect(asked).rejects.toThrow(/^apt-get cannot install nftables:\n {2}E: no room on the disk/);
});
