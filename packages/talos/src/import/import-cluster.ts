// A file of another tool, told by what is in it.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Environment } from "../cluster/environment.ts";
import { type ImportedCluster, isTree } from "./imported-cluster.ts";
import { isTalconfig, readTalconfig } from "./read-talconfig.ts";
import { isTfstate, readTfstate } from "./read-tfstate.ts";
import { parseTfvars } from "./read-tfvars.ts";
import type { NamedFiles } from "./talconfig-patches.ts";
import { parseTalconfig } from "./talconfig-text.ts";
import { tfvarsCluster } from "./tfvars-cluster.ts";

/** Without `files`, those that the text names are neither looked for nor read. */
export function importCluster(
  text: string,
  source: string,
  env: Environment = {},
  files?: NamedFiles,
): ImportedCluster {
  const value = yamlOrJson(text);
  if (isTfstate(value)) return readTfstate(value);
  if (isTalconfig(value)) return readTalconfig(parseTalconfig(text, env), files);
  // Terraform reads values as JSON too.
  if (source.endsWith(".tfvars.json") && isTree(value)) return tfvarsCluster(value);
  if (source.endsWith(".tfvars") || /^\s*[\w-]+\s*=/m.test(text)) {
    return tfvarsCluster(parseTfvars(text, source));
  }
  throw new AppError(
    "feature.unsupported",
    `${source} is neither a talconfig.yaml of talhelper, nor a terraform.tfvars, nor a state of Terraform`,
    { data: { finding: "import-unknown", next: "Nothing was written." } },
  );
}

/** undefined: it is neither. */
function yamlOrJson(text: string): unknown {
  try {
    return parseTalconfig(text);
  } catch {
    return undefined;
  }
}
