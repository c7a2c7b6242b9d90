// What a person types on the platform to mend what preflight found there; for what nobody can guess there is nothing.
import { OF_MAPPINGS, roleOfDeployer } from "./check-privileges.ts";
import type { Finding } from "./finding-report.ts";

const ROLE = "TalosDeployer";

export function mendCommands(findings: readonly Finding[]): readonly string[] {
  return [...grants(findings), ...contents(findings), ...pools(findings)];
}

function grants(findings: readonly Finding[]): readonly string[] {
  // Where the platform refused a question itself, nobody knows the path.
  const paths = findings.flatMap(({ id, subject, evidence }) =>
    id === "privilege-missing" && evidence.startsWith("missing: ") ? [subject] : [],
  );
  if (paths.length === 0) return [];
  // Few clusters have devices of their node; the others' deployers need not have what gives them away.
  const ofDevices = paths.some((path) => path.startsWith("/mapping/")) ? OF_MAPPINGS : [];
  return [
    "TOKEN='USER@REALM!NAME'  # what tokenRef leads to, without =SECRET",
    `pveum role add ${ROLE} --privs '${[...roleOfDeployer, ...ofDevices].join(" ")}'`,
    // A token has what it was given and its user has too.
    ...paths.map(
      (path) => `pveum acl modify ${path} --tokens "$TOKEN" --users "\${TOKEN%%!*}" --roles ${ROLE}`,
    ),
  ];
}

/** A storage has one list of contents, for all nodes. */
function contents(findings: readonly Finding[]): readonly string[] {
  const wanted = new Map<string, Set<string>>();
  for (const { id, subject, evidence } of findings) {
    const [, has = "", lacks = ""] = /^takes (.*); (.+) is missing$/.exec(evidence) ?? [];
    if (id !== "storage-content" || lacks === "") continue;
    const storage = subject.split(" on ")[0] ?? "";
    const all = [...has.split(", "), ...lacks.split(" and ")].filter((content) => content !== "");
    wanted.set(storage, new Set([...(wanted.get(storage) ?? []), ...all]));
  }
  return [...wanted].map(([storage, all]) => `pvesm set ${storage} --content ${[...all].join(",")}`);
}

const pools = (findings: readonly Finding[]): readonly string[] =>
  findings.flatMap(({ id, subject }) => (id === "pool-missing" ? [`pveum pool add ${subject}`] : []));
