// The texts of tickets: `PREFIX:[data:]HEXTIME::signature`. Signed is what stands before `::`, followed by
// `:additional` when the ticket is bound to something it does not show.

export interface TicketText {
  readonly signed: string;
  /** undefined for tickets without data (consoles). */
  readonly data: string | undefined;
  readonly time: number;
  readonly signature: Buffer;
}

const MAX_LENGTH = 4096;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

export function ticketText(prefix: string, data: string | undefined, time: number): string {
  const middle = data === undefined ? "" : `${encodeData(data)}:`;
  return `${prefix}:${middle}${hexTime(time)}`;
}

export function parseTicket(ticket: string, prefix: string): TicketText | undefined {
  if (ticket.length > MAX_LENGTH || !ticket.startsWith(`${prefix}:`) || /\s/.test(ticket)) return undefined;
  const border = ticket.lastIndexOf("::");
  if (border === -1) return undefined;
  const signed = ticket.slice(0, border);
  const signature = ticket.slice(border + 2);
  // Only the one way to write these bytes: a ticket has a single valid text.
  if (!BASE64.test(signature) || Buffer.from(signature, "base64").toString("base64") !== signature)
    return undefined;
  const parts = signed.slice(prefix.length + 1).split(":");
  const stamp = parts.pop() ?? "";
  if (!/^[0-9A-F]{8}$/.test(stamp) || parts.length > 1) return undefined;
  const data = parts[0] === undefined ? undefined : decodeData(parts[0]);
  if (parts.length === 1 && (data === undefined || data === "")) return undefined;
  return { signed, data, time: Number.parseInt(stamp, 16), signature: Buffer.from(signature, "base64") };
}

/** Eight upper-case hex digits. */
export function hexTime(seconds: number): string {
  return seconds.toString(16).toUpperCase().padStart(8, "0");
}

function encodeData(data: string): string {
  return data.replaceAll("%", "%25").replaceAll(":", "%3A").replaceAll(" ", "%20");
}

function decodeData(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
