// Connections whose peer has proven who it is, by a ticket, a token or a certificate. What reads requests marks them,
// what accepts connections spares them; they share nothing else.
const known = new WeakSet<object>();

export function markKnown(connection: object): void {
  known.add(connection);
}

export function isKnown(connection: object): boolean {
  return known.has(connection);
}
