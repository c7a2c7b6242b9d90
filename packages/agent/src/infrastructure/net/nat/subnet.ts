/** Four bytes as one number, or undefined. */
export function ipv4Number(text: string): number | undefined {
  const parts = text.split(".").map((part) => (/^\d{1,3}$/.test(part) ? Number(part) : Number.NaN));
  if (parts.length !== 4 || parts.some((part) => !(part <= 255))) return undefined;
  return parts.reduce((sum, part) => sum * 256 + part, 0);
}

export function ipv4Text(value: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join(".");
}

/** "10.0.0.1/24" -> its first and last address; undefined for anything that is not IPv4. */
export function ipv4Range(cidr: string): { readonly first: number; readonly last: number } | undefined {
  const [address = "", length = "32"] = cidr.split("/");
  const value = ipv4Number(address);
  const bits = Number(length);
  if (value === undefined || !(bits >= 0 && bits <= 32)) return undefined;
  const size = 2 ** (32 - bits);
  const first = Math.floor(value / size) * size;
  return { first, last: first + size - 1 };
}

/** Whether a subnet has addresses in common with what the host has. */
export function meets(cidr: string, used: readonly string[]): boolean {
  const wanted = ipv4Range(cidr);
  return (
    wanted !== undefined &&
    used.some((each) => {
      const range = ipv4Range(each);
      // A default route covers everything and means nothing here.
      return (
        range !== undefined &&
        !each.endsWith("/0") &&
        range.last >= wanted.first &&
        range.first <= wanted.last
      );
    })
  );
}

/** The first of 10.37.0.0/24 … 10.37.255.0/24 that meets none of the host's addresses and routes. */
export function freeSubnet(used: readonly string[]): string | undefined {
  for (let third = 0; third < 256; third++) {
    const cidr = `10.37.${third}.0/24`;
    if (!meets(cidr, used)) return cidr;
  }
  return undefined;
}
