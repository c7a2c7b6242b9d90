import { parse } from "yaml";

/** YAML of somebody else's, of which JSON is a part. Without aliases: a small text stays a small value. */
export function readPlainYaml(text: string): unknown {
  return parse(text, { maxAliasCount: 0, logLevel: "error" });
}
