// Snapshot cases that PVE's developers keep: a configuration before and after prepare, commit, create, delete and
// rollback, with storage and guest failing in given ways. The suite holds the files; what the known cases ask is in
// the table, what others ask is inferred from their files.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { PHASES, runCase, type Phase } from "./qemu-snapshot-host.ts";
import { agreesWith, describeAsked, inferCase, type CaseFiles } from "./qemu-snapshot-infer.ts";
import { knownCases, likelyCases, type Case } from "./qemu-snapshot-table.ts";

const root = resolve(import.meta.dirname, "../..");
const suite = join(process.env["GPVE_SUITES"] ?? resolve(root, "../shared/suites"), "qemu-server-snapshot");
const present = existsSync(join(suite, "snapshot-input"));
if (!present) {
  console.warn(
    `SKIPPED qemu-server-snapshot conformance: no suite at ${suite}; set GPVE_SUITES to the suites' folder`,
  );
}

const folder = (side: "input" | "expected", phase: string) =>
  join(suite, `snapshot-${side}`, phase, "qemu-server");

/** Every case that has files, known or not. */
function listCases(): { readonly phase: string; readonly vmid: number }[] {
  return readdirSync(join(suite, "snapshot-input"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && existsSync(folder("input", entry.name)))
    .flatMap(({ name: phase }) =>
      readdirSync(folder("input", phase))
        .flatMap((file) => /^(\d+)\.conf$/.exec(file)?.[1] ?? [])
        .map((vmid) => ({ phase, vmid: Number(vmid) })),
    )
    .toSorted((a, b) => a.phase.localeCompare(b.phase) || a.vmid - b.vmid);
}

function read(phase: Phase, vmid: number): CaseFiles {
  const text = (side: "input" | "expected") =>
    readFileSync(join(folder(side, phase), `${vmid}.conf`), "utf8");
  return { phase, vmid, input: text("input"), expected: text("expected") };
}

const sameCase = (phase: string, vmid: number) => (each: Case) => each.phase === phase && each.vmid === vmid;

async function judge(files: CaseFiles, each: Case) {
  const { error, text, touched, removed } = await runCase(files.input, each);
  const expected = { error: each.error, touched: each.volumes ?? [], removed: each.removed ?? [] };
  return { got: { error, touched, removed, text }, expected: { ...expected, text: files.expected } };
}

describe.skipIf(!present)("PVE's own snapshot cases", () => {
  const cases = present ? listCases() : [];
  const inferred: string[] = [];
  let passed = 0;
  afterAll(() => {
    for (const line of inferred) console.log(`qemu-server-snapshot: inferred ${line}`);
    const absent = [...knownCases, ...likelyCases].filter(
      ({ phase, vmid }) => !cases.some((each) => each.phase === phase && each.vmid === vmid),
    ).length;
    console.log(
      `qemu-server-snapshot: ${passed} of ${cases.length} cases agree, ${inferred.length} of them with what they ` +
        `ask inferred; ${absent} that are known have no files here`,
    );
  });

  test.each(cases)("$phase in $vmid", async ({ phase: name, vmid }) => {
    const phase = PHASES.find((each) => each === name);
    if (phase === undefined) expect.fail(`the suite has cases of '${name}', which nobody here knows`);
    const files = read(phase, vmid);
    const known = knownCases.find(sameCase(phase, vmid));
    const likely = known ?? likelyCases.find(sameCase(phase, vmid));
    if (likely !== undefined) {
      const { got, expected } = await judge(files, likely);
      // Guesses count as known where the files bear them out: then a wrong result is the product's.
      if (known !== undefined || agreesWith(files, likely)) expect(got).toEqual(expected);
      if (JSON.stringify(got) === JSON.stringify(expected)) {
        passed++;
        return;
      }
    }
    const { asked, outcome, tried } = await inferCase(files);
    if (asked === undefined) {
      expect(outcome.text, `none of ${tried} requests fits (error: ${outcome.error ?? "none"})`).toBe(
        files.expected,
      );
      expect.fail(
        `none of ${tried} requests ends as the files say: ${outcome.error ?? "it was carried out"}`,
      );
    }
    const refusal = outcome.error === undefined ? "" : `: ${outcome.error}`;
    const weak =
      files.input === files.expected ? " (the files are the same: another refusal would fit, too)" : "";
    inferred.push(`${describeAsked(asked)}${refusal}${weak}`);
    passed++;
  });

  const filed = knownCases.filter(({ phase, vmid }) =>
    cases.some((each) => each.phase === phase && each.vmid === vmid),
  );
  test.each(filed)("what $phase in $vmid asks can be inferred too", async ({ phase, vmid, error, name }) => {
    const { asked, outcome } = await inferCase(read(phase, vmid));
    expect(asked).toBeDefined();
    // Files that do not change tell neither the name nor why it was refused.
    if (outcome.error === undefined && error === undefined) expect(asked?.name).toBe(name);
  });
});
