// .gitignore beside cluster.yaml: what holds secrets or is of one machine only.

const wanted = [
  "talosconfig",
  "kubeconfig",
  "secrets.yaml",
  "talsecret.yaml",
  "keys.txt",
  "rendered/",
  ".deployer/*/journal.ndjson",
  ".deployer/*/lease",
  "*.bak",
  "*.tfstate*",
  ".terraform/",
];

/** The file with what was missing added; undefined when nothing was. */
export function ignoreText(existing: string | undefined): string | undefined {
  const lines = new Set((existing ?? "").split("\n").map((line) => line.trim()));
  const missing = wanted.filter((line) => !lines.has(line));
  if (missing.length === 0) return undefined;
  const head = existing === undefined || existing === "" ? "" : `${existing.replace(/\n*$/, "\n")}\n`;
  return `${head}# gpvectl talos: never commit these\n${missing.join("\n")}\n`;
}
