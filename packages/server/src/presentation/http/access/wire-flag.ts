/** PVE's booleans on the wire. */
export function flag(value: boolean): 0 | 1 {
  return value ? 1 : 0;
}
