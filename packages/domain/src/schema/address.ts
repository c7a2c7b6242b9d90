// IP addresses and networks as PVE's formats accept them.

const OCTET = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const IPV4 = new RegExp(`^${OCTET}(?:\\.${OCTET}){3}$`);
const DNS_LABEL = /^[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?$/;

export function isIpv4(text: string): boolean {
  return IPV4.test(text);
}

export function isIpv6(text: string): boolean {
  if (text.length > 45 || !/^[0-9a-fA-F:.]+$/.test(text)) return false;
  const halves = text.split("::");
  if (halves.length > 2) return false;
  const [left = "", right] = halves;
  const head = groupCount(left, right === undefined);
  if (head === undefined) return false;
  if (right === undefined) return head === 8;
  const tail = groupCount(right, true);
  return tail !== undefined && head + tail < 8;
}

/** Number of 16-bit groups in a run of them; a dotted quad counts two and may only end the address. */
function groupCount(run: string, mayEndInQuad: boolean): number | undefined {
  if (run === "") return 0;
  const parts = run.split(":");
  let count = 0;
  for (const [index, part] of parts.entries()) {
    if (/^[0-9a-fA-F]{1,4}$/.test(part)) count += 1;
    else if (mayEndInQuad && index === parts.length - 1 && isIpv4(part)) count += 2;
    else return undefined;
  }
  return count;
}

export function isIp(text: string): boolean {
  return isIpv4(text) || isIpv6(text);
}

/** The prefix length of `address/len`, when the address is of the family and the length within bounds. */
function isNetwork(
  text: string,
  isAddress: (address: string) => boolean,
  low: number,
  high: number,
): boolean {
  const slash = text.lastIndexOf("/");
  if (slash < 0 || !isAddress(text.slice(0, slash))) return false;
  const length = text.slice(slash + 1);
  return /^\d{1,3}$/.test(length) && Number(length) >= low && Number(length) <= high;
}

export function isCidrv4(text: string, low = 8): boolean {
  return isNetwork(text, isIpv4, low, 32);
}

export function isCidrv6(text: string, low = 8): boolean {
  return isNetwork(text, isIpv6, low, 128);
}

export function isCidr(text: string, low = 8): boolean {
  return isCidrv4(text, low) || isCidrv6(text, low);
}

export function isDnsName(text: string): boolean {
  return text.split(".").every((label) => DNS_LABEL.test(label));
}

export function isIpv4Mask(text: string): boolean {
  if (!isIpv4(text)) return false;
  let bits = 0;
  for (const octet of text.split(".")) bits = bits * 256 + Number(octet);
  // Ones followed by zeros: the complement plus one is a power of two.
  const size = 2 ** 32 - bits;
  return Number.isInteger(Math.log2(size));
}

/** `host`, `host:port`, `[v6]:port`, or a bare IPv6 address. */
export function isHostAndPort(text: string): boolean {
  if (isIp(text) || isDnsName(text)) return true;
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d+)$/.exec(text) ?? /^\[([^\]]+)\]$/.exec(text);
  if (match === null) return false;
  return match[1] === undefined ? isIpv4(match[2] ?? "") || isDnsName(match[2] ?? "") : isIpv6(match[1]);
}
