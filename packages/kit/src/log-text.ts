/** One JSON log line as a line for a person: `time LEVEL component: message (key=value ...)`. */
export function formatLogText(line: string): string {
  const { timestamp, level, message, component, ...rest } = JSON.parse(line) as Record<string, unknown>;
  const fields = Object.entries(rest).map(([name, value]) => `${name}=${shown(value)}`);
  const tail = fields.length === 0 ? "" : ` (${fields.join(" ")})`;
  return `${text(timestamp)} ${text(level).toUpperCase().padEnd(5)} ${text(component)}: ${text(message)}${tail}\n`;
}

function shown(value: unknown): string {
  return typeof value === "string" && /^[^\s"()]+$/.test(value) ? value : JSON.stringify(value);
}

/** Control characters are escaped: a message must not be able to forge a second line or colour the terminal. */
function text(value: unknown): string {
  const plain = typeof value === "string" ? value : "";
  return JSON.stringify(plain)
    .slice(1, -1)
    .replaceAll('\\"', '"')
    .replaceAll("\\\\", "\\")
    .replaceAll(/[\u007f-\u009f]/g, (char) => `\\u00${char.charCodeAt(0).toString(16)}`);
}
