import { readFile } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { printable } from '@echoperator/runtime/process';
import { RemotePets, UsageError } from './remote-pets.ts';

export const usage = `Usage: petstore COMMAND

Commands:
  serve                                               run the store; its settings come from the environment
  add --name NAME --type TYPE --birthday YYYY-MM-DD   add a pet, print its id
  list [--name NAME]... [--type TYPE]... [--born-from YYYY-MM-DD] [--born-before YYYY-MM-DD] [--json]
                                                      print pets: id, birthday, type and name, or one JSON object a line
  delete ID...                                        delete pets
  version                                             print the version

Types: dog, cat, bird, reptile.

add, list and delete connect to PETSTORE_ADDRESS (default localhost:6742). PETSTORE_TLS=true switches TLS on;
PETSTORE_CA_FILE names a certificate authority to trust instead of the public ones. PETSTORE_CERT_FILE and
PETSTORE_KEY_FILE name the certificate and key to present.
`;

/** The timeout of every call except a list. */
const timeoutMs = 10_000;

/** Writes a piece of a command's output. */
export type Print = (text: string) => void;

const commands: Readonly<Record<string, (pets: RemotePets, args: readonly string[], print: Print) => Promise<void>>> = {
  add: async (pets, args, print) => {
    const options = { name: { type: 'string' }, type: { type: 'string' }, birthday: { type: 'string' } } as const;
    const { name, type, birthday } = parsed(() => parseArgs({ args: [...args], options })).values;
    if (name === undefined || type === undefined || birthday === undefined) {
      throw new UsageError('add needs --name, --type and --birthday');
    }
    print(`${printable(await pets.add({ name, type, birthday }))}\n`);
  },
  list: async (pets, args, print) => {
    const options = {
      name: { type: 'string', multiple: true },
      type: { type: 'string', multiple: true },
      'born-from': { type: 'string' },
      'born-before': { type: 'string' },
      json: { type: 'boolean' },
    } as const;
    const { values } = parsed(() => parseArgs({ args: [...args], options }));
    const { name: names = [], type: types = [], json = false } = values;
    const wanted = { names, types, bornFrom: values['born-from'], bornBefore: values['born-before'] };
    for await (const pet of pets.list(wanted)) {
      const { id, birthday, type, name } = pet;
      print(`${printable(json ? JSON.stringify(pet) : `${id}  ${birthday}  ${type.padEnd(7)}  ${name}`)}\n`);
    }
  },
  delete: async (pets, args) => {
    const { positionals } = parsed(() => parseArgs({ args: [...args], allowPositionals: true }));
    if (positionals.length === 0) throw new UsageError('delete needs the ids of pets');
    await pets.delete(positionals);
  },
};

/** Whether the command is one that connects to a pet store. */
export const isClientCommand = (command: string | undefined): command is string =>
  command !== undefined && Object.hasOwn(commands, command);

/**
 * Runs a command that connects to a pet store.
 *
 * @throws UsageError for unknown arguments; ConnectError for an error response, and if the pet store cannot be reached.
 */
export async function runCommand(
  command: string,
  args: readonly string[],
  environment: NodeJS.ProcessEnv,
  print: Print,
): Promise<void> {
  const run = commands[command];
  if (run === undefined) throw new UsageError(`unknown command: ${command}`);
  using pets = new RemotePets(await channelOf(environment));
  await run(pets, args, print);
}

async function channelOf(environment: NodeJS.ProcessEnv) {
  const { PETSTORE_ADDRESS, PETSTORE_TLS, PETSTORE_CA_FILE, PETSTORE_CERT_FILE, PETSTORE_KEY_FILE } = environment;
  const files = { ca: PETSTORE_CA_FILE, cert: PETSTORE_CERT_FILE, key: PETSTORE_KEY_FILE };
  const tls = ['true', '1'].includes(PETSTORE_TLS ?? '') ? await contentsOf(files) : undefined;
  const address = PETSTORE_ADDRESS || 'localhost:6742';
  if (!URL.canParse(`http://${address}`)) {
    const takes = 'takes a host and a port, as petstore.example:6742 or [::1]:6742';
    throw new UsageError(`PETSTORE_ADDRESS: got ${JSON.stringify(address)}, ${takes}`);
  }
  return { address, tls, timeoutMs };
}

async function contentsOf(files: Readonly<Record<string, string | undefined>>): Promise<Record<string, string>> {
  const given = Object.entries(files).flatMap(([name, path]) => (path ? [[name, path] as const] : []));
  return Object.fromEntries(await Promise.all(given.map(async ([name, path]) => [name, await readFile(path, 'utf8')])));
}

/** Converts an error of `parse` to a UsageError with the same message. */
function parsed<T>(parse: () => T): T {
  try {
    return parse();
  } catch (cause) {
    throw new UsageError(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}
