// IPv4 networks as numbers.

export interface Cidr {
  /** First address. */
  readonly first: number;
  readonly prefix: number;
}

/** undefined = not an IPv4 network, or one with bits beyond its prefix. */
export function readCidr(text: string): Cidr | undefined {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})\/(\d{1,2})$/.exec(text);
  if (match === null) return undefined;
  const parts = match.slice(1).map(Number);
  const prefix = parts[4] ?? 99;
  if (prefix > 32 || parts.slice(0, 4).some((part) => part > 255)) return undefined;
  const first = parts.slice(0, 4).reduce((sum, part) => sum * 256 + part, 0);
  return first % sizeOf(prefix) === 0 ? { first, prefix } : undefined;
}

export function cidrsOverlap(a: Cidr, b: Cidr): boolean {
  return a.first < b.first + sizeOf(b.prefix) && b.first < a.first + sizeOf(a.prefix);
}

/** The address so many after the first. */
export function addressAt({ first }: Cidr, offset: number): string {
  const at = first + offset;
  return [24, 16, 8, 0].map((shift) => Math.floor(at / 2 ** shift) % 256).join(".");
}

function sizeOf(prefix: number): number {
  return 2 ** (32 - prefix);
}
