// The one way commands print: the same data as a table for people, JSON or YAML for programs.
import { given } from "@gpve/contracts/given.ts";
import { stringify } from "yaml";
import type { CliIo } from "../io.ts";
import { cellText } from "./cell.ts";
import { type Colours, coloursFor } from "./colour.ts";
import { printable } from "./display-width.ts";
import { fieldOf, renderTable, type TableColumn } from "./table.ts";

export const OUTPUT_FORMATS = ["table", "wide", "json", "yaml"] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

export class Printer {
  readonly format: OutputFormat;
  readonly colours: Colours;
  readonly #io: CliIo;
  readonly #quiet: boolean;
  readonly #wording: (text: string) => string;
  #documents = 0;

  constructor(deps: {
    io: CliIo;
    format: OutputFormat;
    colour: boolean;
    quiet: boolean;
    /** Last word on sentences for people. */
    wording?: (text: string) => string;
  }) {
    this.#io = deps.io;
    this.format = deps.format;
    this.colours = coloursFor(deps.io.stdout, deps.io, deps.colour);
    this.#quiet = deps.quiet;
    this.#wording = deps.wording ?? ((text) => text);
  }

  get forPeople(): boolean {
    return this.format === "table" || this.format === "wide";
  }

  /** Exactly this text. */
  text(text: string): void {
    this.#io.stdout.write(text);
  }

  line(text = ""): void {
    this.text(`${text}\n`);
  }

  /** What happened, for people only; programs see the exit code. */
  done(sentence: string): void {
    if (this.forPeople && !this.#quiet) this.line(this.#wording(printable(sentence)));
  }

  /** Progress and remarks: never on standard output. */
  note(sentence: string): void {
    if (!this.#quiet) this.#io.stderr.write(`${this.#wording(printable(sentence))}\n`);
  }

  rows(rows: readonly unknown[], columns: readonly TableColumn[], whenEmpty: string): void {
    if (!this.forPeople) this.data(rows);
    else if (rows.length === 0) this.note(whenEmpty);
    else this.text(this.table(rows, columns));
  }

  table(rows: readonly unknown[], columns: readonly TableColumn[], memory?: number[]): string {
    const shown = columns.filter((column) => column.wide !== true || this.format === "wide");
    return renderTable(rows, shown, {
      colours: this.colours,
      width: this.#io.stdout.isTTY ? this.#io.stdout.columns : undefined,
      nowMs: this.#io.clock.now(),
      ...given({ memory }),
    });
  }

  /** One thing as "Name: value" lines; fields that are absent are left out. */
  facts(thing: unknown, fields: readonly TableColumn[]): void {
    if (!this.forPeople) {
      this.data(thing);
      return;
    }
    const present = fields.filter((field) => fieldOf(thing, field.field) !== undefined);
    const width = Math.max(0, ...present.map((field) => field.header.length));
    for (const { header, field, format } of present) {
      const value = fieldOf(thing, field);
      // Sentences have commas of their own: each has a line.
      const parts: readonly unknown[] = format === "sentences" && Array.isArray(value) ? value : [value];
      for (const [at, part] of parts.entries()) {
        const text = cellText(part, format ?? "text", this.#io.clock.now());
        this.line(`${this.colours.bold((at === 0 ? `${header}:` : "").padEnd(width + 1))}  ${text}`);
      }
    }
  }

  /** Machine form. Several documents in one run: YAML documents are separated, JSON ones follow each other. */
  data(value: unknown, options: { compact?: boolean } = {}): void {
    this.#documents += 1;
    if (this.format === "yaml") {
      this.text(`${this.#documents > 1 ? "---\n" : ""}${stringify(value ?? null)}`);
    } else {
      this.line(JSON.stringify(value ?? null, null, options.compact === true ? 0 : 2));
    }
  }
}
