// terraform.tfvars: values in HCL. Only values: expressions belong into .tf files, and Terraform refuses them here too.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Tree } from "./imported-cluster.ts";

const TOKEN =
  /\s*(?:(?:#|\/\/)[^\n]*|\/\*[^]*?\*\/|<<-?(\w+)\n([^]*?)\n\s*\1(?=\n|$)|"((?:[^"\\]|\\.)*)"|(-?\d+(?:\.\d+)?)(?![\w.])|([A-Za-z_][\w-]*)|([{}[\]=,:]))/y;

interface Token {
  readonly kind: "text" | "number" | "word" | "mark";
  readonly value: string;
}

export function parseTfvars(text: string, source: string): Tree {
  const tokens = tokensOf(text, source);
  let at = 0;
  const refuse = (): never => {
    throw new AppError("config.invalid", `${source} is no file of Terraform values`, {
      data: { finding: "import-unknown", next: "Nothing was written." },
    });
  };
  const take = (): Token => tokens[at++] ?? refuse();
  const isMark = (mark: string): boolean => tokens[at]?.kind === "mark" && tokens[at]?.value === mark;
  const skip = (mark: string): boolean => isMark(mark) && ++at > 0;

  function value(): unknown {
    const token = take();
    if (token.kind === "text") return token.value;
    if (token.kind === "number") return Number(token.value);
    if (token.kind === "word") {
      return token.value === "null"
        ? null
        : ["true", "false"].includes(token.value)
          ? token.value === "true"
          : refuse();
    }
    if (token.value === "{") return entries("}");
    if (token.value !== "[") return refuse();
    const items: unknown[] = [];
    while (!skip("]")) {
      items.push(value());
      skip(",");
    }
    return items;
  }

  function entries(end: string | undefined): Tree {
    const found = new Map<string, unknown>();
    while (end === undefined ? at < tokens.length : !skip(end)) {
      const key = take();
      if (key.kind === "mark" || !(skip("=") || skip(":"))) return refuse();
      found.set(key.value, value());
      skip(",");
    }
    return Object.fromEntries(found);
  }
  return entries(undefined);
}

function tokensOf(text: string, source: string): readonly Token[] {
  const tokens: Token[] = [];
  const pattern = new RegExp(TOKEN);
  while (text.slice(pattern.lastIndex).trim() !== "") {
    const start = pattern.lastIndex;
    const match = pattern.exec(text);
    if (match === null) {
      const line = text.slice(0, start).split("\n").length;
      throw new AppError("config.invalid", `${source}:${line}: this is no value of Terraform`, {
        data: { finding: "import-unknown", next: "Nothing was written." },
      });
    }
    const [, , heredoc, quoted, number, word, mark] = match;
    if (heredoc !== undefined) tokens.push({ kind: "text", value: `${heredoc}\n` });
    else if (quoted !== undefined) tokens.push({ kind: "text", value: unescaped(quoted) });
    else if (number !== undefined) tokens.push({ kind: "number", value: number });
    else if (word !== undefined) tokens.push({ kind: "word", value: word });
    else if (mark !== undefined) tokens.push({ kind: "mark", value: mark });
  }
  return tokens;
}

function unescaped(text: string): string {
  return text.replaceAll(/\\(.)/g, (_all, letter: string) => ({ n: "\n", t: "\t" })[letter] ?? letter);
}
