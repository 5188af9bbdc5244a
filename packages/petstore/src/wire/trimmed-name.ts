/** All characters with this property are one UTF-16 code unit. */
const whiteSpace = /\p{White_Space}/u;

/**
 * Removes the Unicode white space around the name of a pet, as pet stores do.
 *
 * The time is proportional to the length. A pattern that ends with `+$` would start again at each blank inside the
 * name.
 */
export function trimmedName(name: string): string {
  const isBlank = (index: number): boolean => whiteSpace.test(name.charAt(index));
  let start = 0;
  let end = name.length;
  while (start < end && isBlank(start)) start += 1;
  while (end > start && isBlank(end - 1)) end -= 1;
  return name.slice(start, end);
}
