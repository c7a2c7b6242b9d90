// terraform.tfvars: values in HCL. Only values: expressions belong into .tf files, and Terraform refuses them here too.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Tree } from "./imported-cluster.ts";

const TOKEN =
  /\s*(?:(?:#|\/\/)[^\n]*|\/\*[^]*?\*\/|<<-?(\w+)\n(?:([^]*?)\n)?[ \t]*\1(?=\n|$)|"((?:[^"\\]|\\.)*)"|(-?\d+(?:\.\d+)?)(?![\w.])|([A-Za-z_][\w-]*)|([{}[\]=,:]))/y;

interface Token {
  readonly kind: "text" | "number" | "word" | "mark";
  readonly value: string;
}

/** Values of people are not nested deeper, and readers of other formats give up about here as well. */
const MAX_DEPTH = 100;

export function parseTfvars(text: string, source: string): Tree {
  const tokens = tokensOf(text.replaceAll("\r\n", "\n"), source);
  let at = 0;
  let depth = 0;
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
    if (depth > MAX_DEPTH || (token.value !== "{" && token.value !== "[")) return refuse();
    depth += 1;
    const inner = token.value === "{" ? entries("}") : items();
    depth -= 1;
    return inner;
  }

  function items(): readonly unknown[] {
    const found: unknown[] = [];
    while (!skip("]")) {
      found.push(value());
      skip(",");
    }
    return found;
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
    const [, ending, heredoc, quoted, number, word, mark] = match;
    if (ending !== undefined)
      tokens.push({ kind: "text", value: heredoc === undefined ? "" : `${heredoc}\n` });
    else if (quoted !== undefined) tokens.push({ kind: "text", value: unescaped(quoted) });
    else if (number !== undefined) tokens.push({ kind: "number", value: number });
    else if (word !== undefined) tokens.push({ kind: "word", value: word });
    else if (mark !== undefined) tokens.push({ kind: "mark", value: mark });
  }
  return tokens;
}

function unescaped(text: string): string {
  return text
    .replaceAll(/\\(?:u([0-9a-fA-F]{4})|(.))/g, (_all, code: string | undefined, letter = "") =>
      code === undefined
        ? ({ n: "\n", t: "\t", r: "\r" }[letter as string] ?? String(letter))
        : String.fromCharCode(Number.parseInt(code, 16)),
    )
    .replaceAll(/([$%])\1\{/g, "$1{");
}
