// How PVE reads the small texts inside parameters: lists, booleans, numbers.

/** Splits a `-list` value: on NUL when there is one, else on commas, semicolons and white space. */
export function splitList(text: string): string[] {
  if (text.includes("\0")) return text.split("\0");
  return text.split(/[,;\s]+/).filter((part) => part !== "");
}

/** `1|on|yes|true` and `0|off|no|false`, as configuration files and property strings allow. */
export function parseBoolean(text: string): boolean | undefined {
  switch (text.toLowerCase()) {
    case "1":
    case "on":
    case "yes":
    case "true":
      return true;
    case "0":
    case "off":
    case "no":
    case "false":
      return false;
    default:
      return undefined;
  }
}

export function isIntegerText(text: string): boolean {
  return /^[+-]?\d+$/.test(text);
}

export function isNumberText(text: string): boolean {
  return /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/.test(text);
}
