import { printable } from '../observability/printable.ts';
import type { FieldChange, Plan, PlannedAction, PlannedObject, PlannedWrite } from './plan.ts';
import { excerpts } from './shown-fields.ts';

/** A write and the object whose reconcile would send it. */
interface Line {
  readonly write: PlannedWrite;
  readonly owner: PlannedObject;
}

/** The sections of the text, in the order in which they are printed. */
const sections: readonly { readonly title: string; readonly actions: readonly PlannedAction[] }[] = [
  { title: 'Deletions and replacements', actions: ['delete', 'replace'] },
  { title: 'Creations', actions: ['create'] },
  { title: 'Changes', actions: ['change'] },
  { title: 'Status: another reason', actions: ['reason'] },
  { title: 'Status: the same reason', actions: ['status'] },
  { title: 'Refused by the API server', actions: ['refused'] },
];

/** How many objects of a group, and how many fields of a change, are named. The JSON has all. */
const maxNames = 5;
const maxFields = 12;
const maxValueLength = 80;

/**
 * Formats a plan for people: deletions and replacements first, then the other changes, each by kind and namespace.
 * Objects with equal changes are one entry. Values of Secrets are not in a plan.
 */
export function formatPlan(plan: Plan): string {
  const all = plan.objects.flatMap((owner) => owner.writes.map((write) => ({ write, owner })));
  const texts = sections.map(({ title, actions }) =>
    sectionOf(
      title,
      all.filter(({ write }) => actions.includes(write.action)),
    ),
  );
  const external = plan.objects.filter(({ externalCall }) => externalCall !== undefined);
  const incomplete = plan.objects.filter((object) => object.incomplete !== undefined);
  texts.push(
    listOf('External calls, which end the plan of their objects', external, ({ externalCall = '' }) => externalCall),
    listOf('Plans that end early', incomplete, (object) => object.incomplete ?? ''),
  );
  const summary = `${plan.reconciled} objects planned in ${plan.seconds.toFixed(1)} s: ${countsOf(all)}.`;
  return [...texts.filter((text) => text !== ''), summary].map((text) => `${text}\n`).join('\n');
}

function countsOf(all: readonly Line[]): string {
  const counts = Map.groupBy(all, ({ write }) => write.action);
  const parts = sections
    .flatMap(({ actions }) => actions)
    .filter((action) => counts.has(action))
    .map((action) => `${counts.get(action)?.length} ${action}`);
  return parts.length === 0 ? 'no write to the API server' : parts.join(', ');
}

function sectionOf(title: string, lines: readonly Line[]): string {
  if (lines.length === 0) return '';
  const texts: string[] = [`${title} (${lines.length})`];
  for (const [place, inPlace] of sorted(Map.groupBy(lines, placeOf))) {
    texts.push(`  ${place}`);
    for (const group of Map.groupBy(inPlace, signatureOf).values()) texts.push(...groupText(group));
  }
  return texts.join('\n');
}

const placeOf = ({ write: { kind, namespace } }: Line): string =>
  shown(namespace === undefined ? kind : `${kind} in ${namespace}`);

const signatureOf = ({ write, owner }: Line): string =>
  JSON.stringify([write.action, write.fields, write.note, owner.kind, owner.waitsFor]);

function groupText(group: readonly Line[]): readonly string[] {
  const [first] = group;
  if (first === undefined) return [];
  const { write, owner } = first;
  const names = group.map((line) => ownName(line)).slice(0, maxNames);
  const rest = group.length - names.length;
  const waits =
    owner.waitsFor === undefined ? [] : [`      then ${shown(`${owner.kind} waits for ${owner.waitsFor}`)}`];
  return [
    `    ${write.action} ${names.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`,
    ...fieldTexts(write.fields),
    ...(write.note === undefined ? [] : [`      ${shown(write.note)}`]),
    ...waits,
  ];
}

/** The object's name, and the name of the object that is reconciled if it is another one. */
function ownName({ write, owner }: Line): string {
  const isOwn = write.kind === owner.kind && write.name === owner.name;
  // Names of roles may contain control characters.
  return shown(isOwn ? write.name : `${write.name} (${owner.kind} ${owner.name})`);
}

function fieldTexts(fields: readonly FieldChange[]): readonly string[] {
  const texts = fields.slice(0, maxFields).map((field) => `      ${shown(field.path)}${changeText(field)}`);
  const rest = fields.length - texts.length;
  return rest > 0 ? [...texts, `      and ${rest} more fields`] : texts;
}

function changeText(field: FieldChange): string {
  if (!('before' in field) && !('after' in field)) return '';
  return `: ${valueText(field, 'before')} → ${valueText(field, 'after')}`;
}

function valueText(field: FieldChange, side: 'before' | 'after'): string {
  if (!(side in field)) return '(none)';
  const value = excerpts(field, maxValueLength)[side];
  // The excerpt of an object is JSON already.
  const isJson = typeof value === 'string' && typeof field[side] !== 'string';
  return shown(isJson ? value : JSON.stringify(value));
}

function listOf(title: string, objects: readonly PlannedObject[], textOf: (object: PlannedObject) => string): string {
  if (objects.length === 0) return '';
  const groups = Map.groupBy(objects, (object) => `${object.kind}: ${textOf(object)}`);
  const texts = [...groups].map(([text, group]) => {
    const names = group
      .slice(0, maxNames)
      .map(({ namespace, name }) => shown(namespace ? `${namespace}/${name}` : name));
    const rest = group.length - names.length;
    return `  ${shown(text)}\n    ${names.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
  });
  return [`${title} (${objects.length})`, ...texts].join('\n');
}

/** Without line breaks and escape sequences, which would imitate other lines. */
const shown = (text: string): string => printable(text);

const sorted = <V>(groups: ReadonlyMap<string, V>): readonly (readonly [string, V])[] =>
  [...groups].sort(([one], [other]) => (one < other ? -1 : 1));
