// What the person typed, after parsing.
import { AppError } from "@gpve/contracts/errors.ts";

export class Input {
  readonly #arguments: Readonly<Record<string, unknown>>;
  readonly #options: Readonly<Record<string, unknown>>;

  constructor(given: {
    arguments: Readonly<Record<string, unknown>>;
    options: Readonly<Record<string, unknown>>;
  }) {
    this.#arguments = given.arguments;
    this.#options = given.options;
  }

  /** A required argument. */
  arg(name: string): string {
    const value = this.#arguments[name];
    if (typeof value !== "string") throw new AppError("request.invalid", `${name} is missing`);
    return value;
  }

  optionalArg(name: string): string | undefined {
    const value = this.#arguments[name];
    return typeof value === "string" ? value : undefined;
  }

  args(name: string): readonly string[] {
    const value = this.#arguments[name];
    return Array.isArray(value) ? (value as readonly string[]) : [];
  }

  text(option: string): string | undefined {
    const value = this.#options[option];
    return typeof value === "string" ? value : undefined;
  }

  texts(option: string): readonly string[] {
    const value = this.#options[option];
    return Array.isArray(value) ? (value as readonly string[]) : [];
  }

  number(option: string): number | undefined {
    const value = this.#options[option];
    return typeof value === "number" ? value : undefined;
  }

  flag(option: string): boolean {
    return this.#options[option] === true;
  }
}

export function wholeNumber(minimum: number, maximum = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (Number.isNaN(value) || value < minimum || value > maximum) {
      const range = maximum === Number.MAX_SAFE_INTEGER ? `${minimum} or more` : `${minimum} to ${maximum}`;
      throw new AppError("request.invalid", `"${text}" is not a whole number of ${range}`);
    }
    return value;
  };
}

/** "90", "90s", "15m", "2h", "7d" in seconds. */
export function durationSeconds(text: string): number {
  const match = /^(\d{1,9})([smhd]?)$/.exec(text);
  const unit = { "": 1, s: 1, m: 60, h: 3600, d: 86400 }[match?.[2] ?? "?"];
  if (match === null || unit === undefined) {
    throw new AppError("request.invalid", `"${text}" is not a duration; write 90s, 15m, 2h or 7d`);
  }
  return Number(match[1]) * unit;
}
