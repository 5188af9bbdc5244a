import { isMap, isScalar, parseDocument } from 'yaml';
import { controllerNames, kindEntries } from '../../src/kinds.ts';
import { controllers } from '../../src/operator.ts';

/** The values of the chart, with a switch of each controller and a line for each kind in `rbac.aggregate`. */
export const chartValuesFile = 'charts/echoperator/values.yaml';

/** Example values that add no kind to the cluster's roles for users. */
export const hardenedValuesFile = 'examples/values/hardened.yaml';

/**
 * Returns the text with these values of {@link chartValuesFile}. A new switch gets a comment. An existing switch keeps
 * its comment.
 */
export function withSwitches(text: string): string {
  const document = parseDocument(text);
  for (const name of controllerNames) {
    const { runsByDefault = false, hasExternalEffects = false } = kindEntries[name];
    if (!document.hasIn(['controllers', name])) {
      const added = document.createNode({ enabled: runsByDefault });
      added.commentBefore = ` Runs the ${controllers[name].kind.kind} controller.`;
      document.setIn(['controllers', name], added);
    }
    document.setIn(['controllers', name, 'enabled'], runsByDefault);
    document.setIn(['rbac', 'aggregate', name], !hasExternalEffects);
  }
  return withoutOthers(document, ['controllers'], ['rbac', 'aggregate']);
}

/** Returns the text with these values of {@link hardenedValuesFile}. */
export function withoutAggregation(text: string): string {
  const document = parseDocument(text);
  for (const name of controllerNames) document.setIn(['rbac', 'aggregate', name], false);
  return withoutOthers(document, ['controllers'], ['rbac', 'aggregate']);
}

/** Returns the text of a document without the entries of kinds that are no longer in the list. */
function withoutOthers(document: ReturnType<typeof parseDocument>, ...maps: readonly (readonly string[])[]): string {
  const names: readonly string[] = controllerNames;
  for (const path of maps) {
    const map = document.getIn(path);
    if (!isMap(map)) throw new Error(`${path.join('.')} must be a map`);
    map.items = map.items.filter(({ key }) => names.includes(String(isScalar(key) ? key.value : key)));
  }
  return document.toString({ lineWidth: 0 });
}
