/** Where a command talks to; tests give their own. */
export interface Io {
  readonly out: (text: string) => void;
  readonly err: (text: string) => void;
  /** Whether a person reads `out`; what goes anywhere else is kept, as a log. */
  readonly isTerminal: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
}

export const processIo: Io = {
  out: (text) => void process.stdout.write(`${text}\n`),
  err: (text) => void process.stderr.write(`${text}\n`),
  isTerminal: process.stdout.isTTY,
  env: process.env,
};
