/** Reads settings from environment variables, for the operator and the pet store. */
import { type CleanedEnv, cleanEnv, makeValidator } from 'envalid';

/**
 * Creates an envalid validator. Its error says which values the setting accepts.
 *
 * @param parse returns undefined for an invalid text.
 */
export function accept<T>(takes: string, parse: (text: string) => T | undefined) {
  return makeValidator<T>((text) => {
    const value = parse(text);
    if (value === undefined) throw new TypeError(takes);
    return value;
  });
}

export const integer = (min: number, max: number) =>
  accept(`a whole number from ${min} to ${max}`, (text) => {
    const value = Number(text);
    return /^\d+$/.test(text) && value >= min && value <= max ? value : undefined;
  });

export const port = integer(1, 65_535);

/** A number above 0, possibly with a fraction. */
export const amount = (unit: string, max: number) =>
  accept(`a number of ${unit} above 0, ${max} at most`, (text) => {
    const value = Number(text);
    return /^\d+(\.\d+)?$/.test(text) && value > 0 && value <= max ? value : undefined;
  });

/** A number of seconds, up to one day. */
export const seconds = amount('seconds', 86_400);

export const matching = (takes: string, pattern: RegExp) =>
  accept(takes, (text) => (pattern.test(text) ? text : undefined));

/** JSON of a type. */
export const json = <T>(takes: string, isOfType: (value: unknown) => value is T) =>
  accept(takes, (text) => {
    const value = parseJson(text);
    return isOfType(value) ? value : undefined;
  });

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export const text = matching('a text that is not empty', /\S/);

export const oneOf = <const T extends string>(choices: readonly T[]) =>
  accept(`one of ${choices.join(', ')}`, (text) => choices.find((choice) => choice === text));

/** pino's levels. */
const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const;
export type LogLevel = (typeof logLevels)[number];
export const logLevel = oneOf(logLevels);

/**
 * Reads the variables. An empty variable counts as unset, because a ConfigMap cannot unset a variable.
 *
 * @param SettingsError thrown for invalid values. Its message has one line per variable: the name, the value, and which
 *   values the setting accepts.
 */
export function readEnvironment<S>(
  environment: NodeJS.ProcessEnv,
  validators: S,
  SettingsError: new (message: string) => Error,
): CleanedEnv<S> {
  const present = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''));
  return cleanEnv(present, validators, {
    reporter: ({ errors }) => {
      const lines = Object.entries(errors as Readonly<Record<string, Error>>).map(
        ([variable, { message }]) => `${variable}: got ${JSON.stringify(present[variable])}, takes ${message}`,
      );
      if (lines.length > 0) throw new SettingsError(lines.join('\n'));
    },
  });
}
