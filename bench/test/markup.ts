/** The elements of a text that are not closed, or closed without having been opened: none if it is well-formed. */
export function openElements(markup: string): readonly string[] {
  const open: string[] = [];
  for (const [, close, name = '', empty] of markup.matchAll(/<(\/?)(\w+)(?:\s+[\w:-]+="[^"<]*")*(\/?)>/g)) {
    if (empty === '/') continue;
    if (close !== '/') open.push(name);
    else if (open.pop() !== name) return [...open, `/${name}`];
  }
  // The rest must contain no markup.
  const rest = markup.replace(/<(\/?)(\w+)(?:\s+[\w:-]+="[^"<]*")*(\/?)>/g, '');
  return /[<>]/.test(rest) ? [...open, rest] : open;
}
