// A user's own YAML file that is changed in place: what is not touched keeps its order and comments.
import { AppError } from "@gpve/contracts/errors.ts";
import { type Document, isMap, parseDocument } from "yaml";

/** `what` names the file in errors, which never quote it: it holds keys. */
export function editableMap(text: string, what: string): Document {
  const document: Document = parseDocument(text, { prettyErrors: false, logLevel: "silent" });
  const [error] = document.errors;
  if (error !== undefined) {
    throw new AppError(
      "config.invalid",
      `${what} is no YAML: ${error.code} at character ${error.pos[0]}; it was left as it is`,
    );
  }
  if (document.contents === null) document.contents = document.createNode({});
  if (!isMap(document.contents)) {
    throw new AppError("config.invalid", `${what} is no map of keys and values; it was left as it is`);
  }
  return document;
}

/** The name itself, or the first of name-1, name-2, … that `isTaken` does not know; talosctl renames in this way. */
export function freeName(name: string, isTaken: (name: string) => boolean): string {
  if (!isTaken(name)) return name;
  for (let count = 1; ; count++) {
    const candidate = `${name}-${count}`;
    if (!isTaken(candidate)) return candidate;
  }
}

export function toText(document: Document): string {
  return document.toString({ lineWidth: 0, indent: 4 });
}
