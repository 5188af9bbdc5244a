import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { addProgram, imageArchive, makeBusyboxRoot, stopImmediately } from '../../../tools/cluster/images.ts';
import { ensureDebianPackages } from '../../../tools/debian.ts';

/** Debian's Redis. The server's program acts as the server if it is called `redis-server`. */
const redisServer = '/usr/bin/redis-check-rdb';
const redisClient = '/usr/bin/redis-cli';

/**
 * A bookshop's web site: `?TITLE` adds a title, and without a query it lists all titles. It connects to the database by
 * the name and port of the tutorial's app, so the tutorial's manifest works with it.
 */
const books = `#!/bin/sh
ask() { redis-cli -h "\${DB_HOST:-mongodb-service}" -p 27017 -e "$@"; }
if [ -n "$QUERY_STRING" ]; then
  set -- RPUSH books "$(httpd -d "$QUERY_STRING")"
else
  set -- LRANGE books 0 -1
fi
if answer=$(ask "$@" 2>&1); then
  printf 'Content-Type: text/plain\\r\\n\\r\\n%s\\n' "$answer"
else
  printf 'Status: 503 Service Unavailable\\r\\nContent-Type: text/plain\\r\\n\\r\\n%s\\n' "$answer"
fi
`;

/** What the docs use to move the data: the books, a line each. */
const dump = `#!/bin/sh
[ "$*" = --archive ] || exit 2
exec redis-cli -p 27017 LRANGE books 0 -1
`;
const restore = `#!/bin/sh
[ "$*" = --archive ] || exit 2
while read -r title; do redis-cli -p 27017 RPUSH books "$title"; done
`;

const appDockerfile = `FROM scratch
COPY root /
${stopImmediately}CMD ["httpd", "-f", "-p", "3000", "-h", "/srv"]
`;

/** Writes each change to the volume before the reply. */
const databaseDockerfile = `FROM scratch
COPY root /
CMD ["redis-server", "--port", "27017", "--bind", "*", "--protected-mode", "no", "--dir", "/data/db", "--appendonly", "yes", "--appendfsync", "always"]
`;

/**
 * Builds archives of an app and a database with the names of the tutorial's images, so that its manifest works
 * unchanged.
 */
export async function bookStoreImages(): Promise<readonly string[]> {
  await ensureDebianPackages(['redis-tools', 'busybox-static', 'buildah']);
  const [server, client] = [await readFile(redisServer), await readFile(redisClient)];
  return [
    await imageArchive(
      {
        name: 'docker.io/akash125/pyapp:latest',
        dockerfile: appDockerfile,
        inputs: [client, books],
        makeRoot: async (root) => {
          await makeBusyboxRoot(root);
          await addProgram(root, redisClient, '/bin/redis-cli');
          await mkdir(join(root, 'srv/cgi-bin'), { recursive: true });
          await writeFile(join(root, 'srv/cgi-bin/books'), books);
          await chmod(join(root, 'srv/cgi-bin/books'), 0o755);
        },
      },
      undefined,
    ),
    await imageArchive(
      {
        name: 'docker.io/library/mongo:latest',
        dockerfile: databaseDockerfile,
        inputs: [server, client, dump, restore],
        makeRoot: async (root) => {
          await makeBusyboxRoot(root);
          await addProgram(root, redisServer, '/bin/redis-server');
          await addProgram(root, redisClient, '/bin/redis-cli');
          for (const [name, script] of Object.entries({ mongodump: dump, mongorestore: restore })) {
            await writeFile(join(root, 'bin', name), script);
            await chmod(join(root, 'bin', name), 0o755);
          }
        },
      },
      undefined,
    ),
  ];
}
