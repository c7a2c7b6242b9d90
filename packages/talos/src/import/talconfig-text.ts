// The text of a talconfig.yaml, and of the patches in it.
import { AppError } from "@gpve/contracts/errors.ts";
import { parseDocument } from "yaml";
import { type Environment, fillEnvironment } from "../cluster/environment.ts";

/** With an environment, what it refers to is filled in as talhelper does it. */
export function parseTalconfig(text: string, env?: Environment): unknown {
  // "<<: *node" is how nodes that are alike are written.
  const document = parseDocument(text, { prettyErrors: false, logLevel: "silent", merge: true });
  if (document.errors.length > 0) return undefined;
  const missing = env === undefined ? [] : fillEnvironment(document, env);
  if (missing.length > 0) {
    const [{ path, message } = { path: [], message: "" }] = missing;
    throw new AppError("config.invalid", `${path.join(".")} ${message}`, {
      data: { finding: "environment-missing", next: "talenv.yaml is not read: export what it says." },
    });
  }
  return document.toJS({ maxAliasCount: 100 }) as unknown;
}
