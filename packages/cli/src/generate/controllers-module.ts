import { access } from 'node:fs/promises';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ConversionService, CustomKind } from '@echoperator/runtime';
import type { DefinedController } from '@echoperator/runtime/controller';

/** What a module with controllers exports. */
export interface ControllersModule {
  readonly controllers: readonly DefinedController[];
  /** Kinds that no controller reconciles. They get a CustomResourceDefinition and a page too. Default: none. */
  readonly kinds: readonly CustomKind[];
  /**
   * True if the operator elects a leader. The name of its Lease limits the rules to this Lease. Default: false, without
   * rules for Leases.
   */
  readonly leaderElection: boolean | string;
  /** The Service of the conversion webhook. Required if a version of a kind has a conversion. */
  readonly conversionService: ConversionService | undefined;
}

/** The module cannot be loaded, or does not export what it must. The message names the file, the export and the value. */
class ControllersModuleError extends Error {
  override readonly name = 'ControllersModuleError';
}

/**
 * Imports a module with controllers. Node runs it, also as TypeScript, so it must not start the operator.
 *
 * @param path is relative to the current folder.
 * @throws ControllersModuleError if the module cannot be loaded, or an export is missing or of another type.
 */
export async function loadControllers(path: string): Promise<ControllersModule> {
  const { controllers, kinds = [], leaderElection = false, conversionService } = await importModule(path);
  if (!Array.isArray(controllers) || controllers.length === 0)
    throw refused(path, 'controllers', controllers, 'takes a list of the values that defineController returns');
  for (const [index, controller] of controllers.entries())
    if (!isController(controller))
      throw refused(path, `controllers[${index}]`, controller, 'takes a value that defineController returns');
  if (!Array.isArray(kinds)) throw refused(path, 'kinds', kinds, 'takes a list of the values that defineKind returns');
  for (const [index, kind] of kinds.entries())
    if (!isKind(kind)) throw refused(path, `kinds[${index}]`, kind, 'takes a value that defineKind returns');
  if (typeof leaderElection !== 'boolean' && (typeof leaderElection !== 'string' || leaderElection === ''))
    throw refused(path, 'leaderElection', leaderElection, 'takes true, false or the name of the Lease');
  if (conversionService !== undefined && !isService(conversionService))
    throw refused(path, 'conversionService', conversionService, 'takes the namespace and the name of a Service');
  return { controllers, kinds, leaderElection, conversionService };
}

async function importModule(path: string): Promise<Readonly<Record<string, unknown>>> {
  const file = resolve(path);
  await access(file).catch((cause: unknown) => {
    throw new ControllersModuleError(`${path} does not exist: name the module that exports \`controllers\``, { cause });
  });
  try {
    return await import(pathToFileURL(file).href);
  } catch (cause) {
    throw new ControllersModuleError(`${path} cannot be loaded: ${cause instanceof Error ? cause.message : cause}`, {
      cause,
    });
  }
}

const refused = (path: string, name: string, value: unknown, takes: string): ControllersModuleError =>
  new ControllersModuleError(`${path}: the export ${name} is ${shown(value)}, ${takes}`);

/** A value for a message: only its type if it has many parts. */
function shown(value: unknown): string {
  if (value === undefined) return 'missing';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (typeof value === 'function') return 'a function';
  return typeof value === 'object' && value !== null ? 'an object' : JSON.stringify(value);
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null;

const isKind = (value: unknown): value is CustomKind =>
  isObject(value) && typeof value.kind === 'string' && isObject(value.definition);

const isService = (value: unknown): value is ConversionService =>
  isObject(value) && typeof value.namespace === 'string' && typeof value.name === 'string';

const isController = (value: unknown): value is DefinedController =>
  isObject(value) && isKind(value.kind) && isObject(value.reasons) && Array.isArray(value.permissions);
