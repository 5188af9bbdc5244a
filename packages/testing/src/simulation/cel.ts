import {
  type CelInput,
  CelScalar,
  type CelValue,
  celEnv,
  celFunc,
  celList,
  celMap,
  celMethod,
  isCelError,
  isCelList,
  isCelMap,
  listType,
  objectType,
  parse,
  plan,
} from '@bufbuild/cel';
import { create, createFileRegistry } from '@bufbuild/protobuf';
import { isReflectMessage, reflect } from '@bufbuild/protobuf/reflect';
import {
  FieldDescriptorProto_Label,
  FieldDescriptorProto_Type,
  FileDescriptorProtoSchema,
} from '@bufbuild/protobuf/wkt';
import { getMember, isObject, parseNanos } from '@echoperator/runtime/internal';
import type { FieldError } from './field-error.ts';
import { NotSimulatedError } from './strategy.ts';

/** A rule of `x-kubernetes-validations`. */
export interface ValidationRule {
  readonly rule: string;
  readonly message?: string;
  readonly messageExpression?: string;
  readonly reason?: FieldError['reason'];
  readonly fieldPath?: string;
}

/** A rule that can be evaluated. */
export interface CompiledRule {
  readonly usesOldSelf: boolean;
  readonly reason: FieldError['reason'];
  /**
   * The path of the field to report, such as `.spec.size`, below the field that has the rule. Empty: that field itself.
   */
  readonly fieldPath: string;
  /**
   * Returns the failure of a value; undefined if the value satisfies the rule.
   *
   * @throws NotSimulatedError if the result might differ from the API server's.
   */
  evaluate(self: CelInput, oldSelf: CelInput | undefined): RuleFailure | undefined;
}

/** `isError`: the rule could not be evaluated. */
interface RuleFailure {
  readonly detail: string;
  readonly isError: boolean;
}

/** The parts of a schema that the conversion of a value needs. */
export interface ValueSchema {
  readonly schema: {
    readonly type?: string;
    readonly format?: string;
    readonly 'x-kubernetes-int-or-string'?: boolean;
    readonly 'x-kubernetes-list-type'?: string;
  };
  readonly properties: ReadonlyMap<string, ValueSchema>;
  readonly values: ValueSchema | undefined;
  readonly items: ValueSchema | undefined;
}

/** The functions whose results equal the API server's, in all cases that evaluation does not refuse. */
const simulated = new Set([
  ...['_==_', '_!=_', '_<_', '_<=_', '_>_', '_>=_', '!_', '-_', '_&&_', '_||_', '_?_:_', '_+_', '_-_', '_*_', '_/_'],
  ...['_%_', '_[_]', '@in', '@not_strictly_false', 'size', 'startsWith', 'endsWith', 'contains', 'matches', 'type'],
  ...['string', 'quantity', 'isQuantity', 'add', 'compareTo', 'isGreaterThan', 'isLessThan'],
]);

const typeNames = ['int', 'string', 'double', 'bool', 'list', 'map', 'null_type'];

/** The API server drops a longer message. */
const maxMessageBytes = 5120;

/**
 * Compiles the CEL rules of a schema, and converts the values that the rules read.
 *
 * Two differences from the API server: the cost of a rule is not limited, and texts compare by UTF-16 units, which
 * matters only beyond U+FFFF.
 */
export class RuleCompiler {
  readonly #environment;
  /** Lists whose order or keys matter in comparisons. The library does not know which lists these are. */
  readonly #setsAndMaps = new WeakSet<object>();

  constructor() {
    const standard = celEnv().funcs;
    const { BOOL, DOUBLE, DYN, STRING } = CelScalar;
    const list = listType(DYN);
    const comparable = (name: string, args: readonly (typeof DYN | typeof list)[]) =>
      celFunc(name, args, DYN, (...values: CelValue[]) => {
        if (values.some((value) => !this.#isComparable(value)))
          throw new NotSimulatedError(`${name} of quantities, or of lists with the type set or map`);
        return standard.find(name)?.call(0, undefined, values) as CelInput;
      });
    this.#environment = celEnv({
      funcs: [
        ...['_==_', '_!=_'].map((name) => comparable(name, [DYN, DYN])),
        comparable('_+_', [list, list]),
        comparable('@in', [DYN, list]),
        celFunc('string', [DOUBLE], STRING, () => {
          throw new NotSimulatedError('string() of a double');
        }),
        ...quantityFunctions(STRING, BOOL),
      ],
    });
  }

  /**
   * @param where the path of the schema, for the error
   * @throws NotSimulatedError for a rule that is not valid CEL, or that uses something not in {@link simulated}.
   */
  compile(rule: ValidationRule, where: string): CompiledRule {
    const { fieldPath = '', reason = 'FieldValueInvalid' } = rule;
    const unknown = Object.keys(rule).find((key) => !ruleMembers.has(key));
    if (unknown !== undefined) throw new NotSimulatedError(`${unknown} of a rule at ${where}`);
    if (!/^(\.[A-Za-z_]\w*)*$/.test(fieldPath)) throw new NotSimulatedError(`the fieldPath ${fieldPath} at ${where}`);
    const condition = this.#plan(rule.rule, where);
    const explanation = rule.messageExpression === undefined ? undefined : this.#plan(rule.messageExpression, where);
    const text = (rule.message || rule.rule).trim();
    return {
      usesOldSelf: condition.identifiers.has('oldSelf'),
      reason,
      fieldPath,
      evaluate: (self, oldSelf) => {
        const variables = oldSelf === undefined ? { self } : { self, oldSelf };
        const result = condition.evaluate(variables);
        if (result instanceof Error) return { detail: `${result.message} evaluating rule: ${text}`, isError: true };
        if (result === true) return undefined;
        const message = explanation?.evaluate(variables);
        const detail = typeof message === 'string' ? message.trim() : '';
        const isUsable = detail !== '' && !detail.includes('\n') && Buffer.byteLength(detail) <= maxMessageBytes;
        if (isUsable) return { detail, isError: false };
        return { detail: rule.message ? text : `failed rule: ${text}`, isError: false };
      },
    };
  }

  /** Converts JSON to the values that rules read. */
  convert(value: unknown, node: ValueSchema): CelInput {
    const { schema, properties, values, items } = node;
    if (Array.isArray(value) && items !== undefined) {
      const list = celList(value.map((each) => this.convert(each, items)));
      if (['set', 'map'].includes(schema['x-kubernetes-list-type'] ?? '')) this.#setsAndMaps.add(list);
      return list;
    }
    if (isObject(value) && schema.type === 'object') {
      const entries = Object.entries(value).flatMap(([name, each]): [string, CelInput][] => {
        if (values !== undefined) return [[name, this.convert(each, values)]];
        const property = properties.get(name);
        const escaped = escapeName(name);
        return property === undefined || escaped === undefined ? [] : [[escaped, this.convert(each, property)]];
      });
      return celMap(new Map(entries));
    }
    const type = schema['x-kubernetes-int-or-string'] === true ? typeof value : schema.type;
    if (typeof value === 'string' && type === 'string' && schema.format === undefined) return value;
    if (typeof value === 'boolean' && type === 'boolean') return value;
    if (typeof value === 'number' && type === 'number' && schema.type === 'number') return value;
    if (Number.isInteger(value) && type !== undefined && ['integer', 'number'].includes(type))
      return BigInt(Number(value));
    return unreadable;
  }

  /** @throws NotSimulatedError */
  #plan(text: string, where: string) {
    const refuse = (what: string): never => {
      throw new NotSimulatedError(`${what} in a rule at ${where}: ${text}`);
    };
    const parsed = parsedOr(text, refuse);
    const identifiers = new Set<unknown>();
    const variables = new Set<unknown>(['self', 'oldSelf', ...typeNames]);
    for (const part of partsOf(parsed.expr)) {
      const type = getMember(part, '$typeName');
      const member = (name: string): unknown => getMember(part, name);
      if (type === 'cel.expr.Expr.Ident') identifiers.add(member('name'));
      if (type === 'cel.expr.Expr.Comprehension')
        for (const name of ['iterVar', 'iterVar2', 'accuVar']) variables.add(member(name));
      if (type === 'cel.expr.Expr.Call' && !simulated.has(String(member('function'))))
        refuse(`the function ${member('function')}`);
      if (type === 'cel.expr.Expr.CreateStruct') refuse('a map or a message');
      if (String(member('optionalIndices') ?? '') !== '') refuse('an optional element');
    }
    for (const name of identifiers) if (!variables.has(name)) refuse(`the name ${name}`);
    const run = plan(this.#environment, parsed);
    const evaluate = (bindings: Record<string, CelInput>): CelValue | Error => {
      const result = run(bindings);
      if (!isCelError(result)) return result;
      const [, missing] = /^field not found: (.*)$/s.exec(result.message) ?? [];
      if (missing !== undefined) return new Error(`no such key: ${missing}`);
      throw new NotSimulatedError(`the rule at ${where} gives "${result.message}": ${text}`, { cause: result });
    };
    return { identifiers, evaluate };
  }

  #isComparable(value: CelValue): boolean {
    if (isReflectMessage(value)) return false;
    if (isCelMap(value)) return [...value.values()].every((each) => this.#isComparable(each));
    return !isCelList(value) || (!this.#setsAndMaps.has(value) && [...value].every((each) => this.#isComparable(each)));
  }
}

const ruleMembers = new Set(['rule', 'message', 'messageExpression', 'reason', 'fieldPath']);

/**
 * Stands for nulls and for texts that the API server converts (times). The library refuses to read it, and evaluation
 * reports that.
 */
const unreadable = Symbol('unreadable') as unknown as CelInput;

function parsedOr(text: string, refuse: (what: string) => never) {
  try {
    return parse(text);
  } catch (error) {
    return refuse(`invalid CEL (${String(error)})`);
  }
}

function* partsOf(value: unknown): Generator<object> {
  if (typeof value !== 'object' || value === null) return;
  yield value;
  for (const each of Object.values(value)) yield* partsOf(each);
}

const reserved = new Set(
  (
    'true false null in as break const continue else for function if import let loop ' +
    'package namespace return var void while'
  ).split(' '),
);

const escapes: Readonly<Record<string, string>> = {
  __: '__underscores__',
  '.': '__dot__',
  '-': '__dash__',
  '/': '__slash__',
};

/** The name of a property in rules; undefined if it has none (k8s.io/apiserver/pkg/cel, Escape). */
function escapeName(name: string): string | undefined {
  if (reserved.has(name)) return `__${name}__`;
  if (!/^[A-Za-z_./-][\w./-]*$/.test(name)) return undefined;
  return name.replaceAll(/__|[./-]/g, (part) => escapes[part] ?? part);
}

const [quantitySchema, nanosField] = (() => {
  const { STRING: type } = FieldDescriptorProto_Type;
  const { OPTIONAL: label } = FieldDescriptorProto_Label;
  const messageType = [{ name: 'Quantity', field: [{ name: 'nanos', number: 1, type, label }] }];
  const file = { name: 'quantity.proto', package: 'kubernetes', syntax: 'proto3', messageType };
  const registry = createFileRegistry(create(FileDescriptorProtoSchema, file), () => undefined);
  const schema = registry.getMessage('kubernetes.Quantity');
  const [field] = schema?.fields ?? [];
  if (schema === undefined || field === undefined) throw new Error('the message Quantity is missing');
  return [schema, field] as const;
})();

/** The API server's quantities (k8s.io/apiserver/pkg/cel/library), as far as our kinds use them. */
function quantityFunctions(STRING: typeof CelScalar.STRING, BOOL: typeof CelScalar.BOOL) {
  const QUANTITY = objectType(quantitySchema);
  const { INT } = CelScalar;
  type Quantity = CelValue<typeof QUANTITY>;
  const nanosOf = (quantity: Quantity): bigint => BigInt(String(quantity.get(nanosField)));
  const quantityOf = (nanos: bigint) => {
    const message = reflect(quantitySchema);
    message.set(nanosField, String(nanos));
    return message;
  };
  const compare = (a: Quantity, b: Quantity): bigint => {
    const difference = nanosOf(a) - nanosOf(b);
    return difference === 0n ? 0n : difference < 0n ? -1n : 1n;
  };
  return [
    celFunc('isQuantity', [STRING], BOOL, (text) => readQuantity(text) !== undefined),
    celFunc('quantity', [STRING], QUANTITY, (text) => {
      const nanos = readQuantity(text);
      if (nanos === undefined) throw new Error(`invalid quantity ${text}`);
      return quantityOf(nanos);
    }),
    celMethod('add', QUANTITY, [INT], QUANTITY, function (other) {
      return quantityOf(nanosOf(this) + other * nanosPerUnit);
    }),
    celMethod('add', QUANTITY, [QUANTITY], QUANTITY, function (other) {
      return quantityOf(nanosOf(this) + nanosOf(other));
    }),
    celMethod('compareTo', QUANTITY, [QUANTITY], INT, function (other) {
      return compare(this, other);
    }),
    celMethod('isGreaterThan', QUANTITY, [QUANTITY], BOOL, function (other) {
      return compare(this, other) > 0n;
    }),
    celMethod('isLessThan', QUANTITY, [QUANTITY], BOOL, function (other) {
      return compare(this, other) < 0n;
    }),
  ];
}

const nanosPerUnit = 1_000_000_000n;
const maxBinary = (2n ** 63n - 1n) * nanosPerUnit;

/**
 * @throws NotSimulatedError for texts that the API server parses differently: without digits, very long, or with a long
 *   exponent.
 */
function readQuantity(text: string): bigint | undefined {
  if (text.length > 64 || /[eE][+-]?\d{3,}$/.test(text) || /^(?!$)[+-]?\.?([eE][+-]?\d+|[numkKMGTPE]i?)?$/.test(text))
    throw new NotSimulatedError(`the quantity ${text}`);
  const nanos = parseNanos(text);
  if (nanos === undefined || !text.endsWith('i')) return nanos;
  return nanos > maxBinary ? maxBinary : nanos < -maxBinary ? -maxBinary : nanos;
}
