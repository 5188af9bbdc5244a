import { chmod, cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { addProgram, imageArchive, makeBusyboxRoot } from '../../../tools/cluster/images.ts';
import { ensureDebianPackages } from '../../../tools/debian.ts';

/** Debian's PostgreSQL. It finds the second folder by a path relative to the first. */
const programsFolder = '/usr/lib/postgresql';
const sharedFolder = '/usr/share/postgresql';

/** The user of PostgreSQL, which refuses to run as root. initdb requires that the user has a name. */
export const postgresUser = 999;

/** Increase this if the image gets other files of the same PostgreSQL. */
const rootVersion = '1';

/**
 * The entry point, like the public image's: creates the superuser `postgres` with the password POSTGRES_PASSWORD and
 * the database POSTGRES_DB, and passes its arguments to the server.
 */
const entry = (version: string): string => `#!/bin/sh
set -e
PATH=/usr/lib/postgresql/${version}/bin:$PATH
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  echo "$POSTGRES_PASSWORD" > /tmp/password
  initdb --username=postgres --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256 --encoding=UTF8 --locale=C --no-sync
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  echo "CREATE DATABASE $POSTGRES_DB" | postgres --single postgres
fi
exec postgres -c listen_addresses='*' -c unix_socket_directories=/tmp "$@"
`;

const dockerfile = (version: string): string => `FROM scratch
COPY root /
USER ${postgresUser}
ENV PATH=/usr/lib/postgresql/${version}/bin:/bin PGDATA=/var/lib/postgresql/data PGHOST=/tmp PGUSER=postgres
ENTRYPOINT ["/entry"]
`;

/** Builds an archive of Debian's PostgreSQL and psql with the name of the public image in the docs. */
export async function postgresImage(): Promise<string> {
  await ensureDebianPackages(['postgresql', 'busybox-static', 'buildah']);
  const version = await newestVersion();
  const programs = join(programsFolder, version, 'bin');
  const libraries = join(programsFolder, version, 'lib');
  const server = join(programs, 'postgres');
  return imageArchive(
    {
      name: 'docker.io/library/postgres:18',
      dockerfile: dockerfile(version),
      inputs: [await readFile(server), entry(version), rootVersion],
      makeRoot: async (root) => {
        await makeBusyboxRoot(root);
        for (const program of [server, join(programs, 'initdb'), join(programs, 'psql')])
          await addProgram(root, program);
        // Every new database loads these.
        for (const library of ['plpgsql.so', 'dict_snowball.so']) await addProgram(root, join(libraries, library));
        await cp(join(sharedFolder, version), join(root, sharedFolder, version), {
          recursive: true,
          dereference: true,
        });
        // The build makes root the owner of all files, so the data folder must be writable for others.
        await mkdir(join(root, 'var/lib/postgresql'), { recursive: true });
        await chmod(join(root, 'var/lib/postgresql'), 0o777);
        await mkdir(join(root, 'etc'));
        await writeFile(join(root, 'etc/passwd'), `postgres:x:${postgresUser}:${postgresUser}::/:/bin/sh\n`);
        await writeFile(join(root, 'entry'), entry(version));
        await chmod(join(root, 'entry'), 0o755);
      },
    },
    undefined,
  );
}

async function newestVersion(): Promise<string> {
  const versions = (await readdir(programsFolder)).map(Number).filter((version) => version > 0);
  return String(Math.max(...versions));
}
