// The last lines of a serial line, fit to be shown: guests write what they like, also to terminals.
const MOST_LINES = 12;
const MOST_CHARACTERS = 160;
/** Of a line that does not end. */
const MOST_OPEN = 4096;
// oxlint-disable-next-line no-control-regex -- these are what it is about
const COMMANDS = /\u001B(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001B]*(?:\u0007|\u001B\\)?|[ -/]*[0-~])/g;
const CONTROLS = /\p{Cc}/gu;

export class ConsoleLines {
  readonly #decoder = new TextDecoder();
  #lines: string[] = [];
  #open = "";

  add(bytes: Uint8Array): void {
    const [...pieces] = (this.#open + this.#decoder.decode(bytes, { stream: true })).split(
      /\r*\n|\r(?!\n|$)/,
    );
    this.#open = (pieces.pop() ?? "").slice(-MOST_OPEN);
    const shown = pieces.map(plain).filter((line) => line !== "");
    this.#lines = [...this.#lines, ...shown].slice(-MOST_LINES);
  }

  /** Oldest first, with one that has not ended yet. */
  get lines(): readonly string[] {
    const open = plain(this.#open);
    return (open === "" ? this.#lines : [...this.#lines, open]).slice(-MOST_LINES);
  }
}

function plain(text: string): string {
  return text.replaceAll(COMMANDS, "").replaceAll(CONTROLS, "").trim().slice(0, MOST_CHARACTERS);
}
