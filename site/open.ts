/** Serves the built site until it is interrupted, and prints its address. `PORT` is the port (default 4173). */
import { existsSync } from 'node:fs';
import { htmlFolder } from './folders.ts';
import { serveSite } from './server.ts';

if (!existsSync(htmlFolder)) throw new Error('build the site first: make site');
const { address } = await serveSite(Number(process.env.PORT ?? 4173));
process.stdout.write(`${address}\n`);
