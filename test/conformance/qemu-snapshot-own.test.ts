// Snapshot cases of our own, held to the letter: they are there without any suite, and cover what the suite at hand may
// lack (create and commit, failures half way). Volumes are numbered; which number can do what: qemu-snapshot-host.ts.
import { expect, test } from "vitest";
import { runCase, VOLUME_FAILURES, type Asked, type Outcome } from "./qemu-snapshot-host.ts";

const disk = (number: number) => `local:snapshotable-disk-${number}`;
const config = (numbers: readonly number[], ...rest: string[]) =>
  ["cores: 1", ...rest, ...numbers.map((number, index) => `scsi${index}: ${disk(number)}`)].toSorted();
const section = (name: string, lines: readonly string[]) => ["", `[${name}]`, ...lines.toSorted()];
const text = (...lines: readonly string[]) => `${lines.join("\n")}\n`;
const made = (numbers: readonly number[], ...rest: string[]) =>
  section("test", [...config(numbers), "snaptime: 1234567890", ...rest]);

interface OwnCase {
  readonly title: string;
  readonly before: string;
  readonly asked: Omit<Asked, "vmid">;
  readonly after: string;
  readonly error?: string;
  readonly touched?: readonly number[];
  readonly removed?: readonly number[];
}

const locked = text(...config([1], "lock: backup"));
const two = text(...config([1, 2]));
const taken = text(...config([1], "parent: test"), ...made([1]));

const cases: readonly OwnCase[] = [
  {
    title: "takes a snapshot of every disk",
    before: two,
    asked: { phase: "create", name: "test", description: "" },
    after: text(...config([1, 2], "parent: test"), ...made([1, 2])),
    touched: [1, 2],
  },
  {
    title: "takes back what it made when a disk fails",
    before: text(...config([1, 4])),
    asked: { phase: "create", name: "test", description: "" },
    after: text(...config([1, 4])),
    error: VOLUME_FAILURES.snapshot,
    touched: [1],
    removed: [1],
  },
  {
    title: "takes back what it made when the guest cannot be held still",
    before: two,
    asked: { phase: "create", name: "test", description: "", trouble: "no-savevm" },
    after: two,
    error: "savevm-start disabled",
  },
  {
    title: "takes none of a VM that another task holds",
    before: locked,
    asked: { phase: "create", name: "test" },
    after: locked,
    error: "VM is locked (backup)",
  },
  {
    title: "records what is being made",
    before: text(...config([1])),
    asked: { phase: "prepare", name: "test", description: "" },
    after: text(...config([1], "lock: snapshot"), ...made([1], "snapstate: prepare")),
  },
  {
    title: "completes what was made",
    before: text(...config([1], "lock: snapshot"), ...made([1], "snapstate: prepare")),
    asked: { phase: "commit", name: "test" },
    after: taken,
  },
  {
    title: "completes nothing that is being deleted",
    before: text(...config([1], "lock: snapshot"), ...made([1], "snapstate: delete")),
    asked: { phase: "commit", name: "test" },
    after: text(...config([1], "lock: snapshot"), ...made([1], "snapstate: delete")),
    error: "wrong snapshot state",
  },
  {
    title: "deletes a snapshot with those of its volumes",
    before: taken,
    asked: { phase: "delete", name: "test" },
    after: text(...config([1])),
    removed: [1],
  },
  {
    title: "stops a deletion where a volume fails",
    before: text(...config([1, 2], "parent: test"), ...made([1, 2])),
    asked: { phase: "delete", name: "test" },
    after: text(
      ...config([1, 2], "lock: snapshot-delete", "parent: test"),
      ...section("test", [
        "cores: 1",
        `scsi1: ${disk(2)}`,
        "snapstate: delete",
        "snaptime: 1234567890",
        `unused0: ${disk(1)}`,
      ]),
    ),
    error: VOLUME_FAILURES.delete,
    removed: [1],
  },
  {
    title: "goes back with every volume",
    before: text(...config([1], "memory: 512", "parent: test"), ...made([1])),
    asked: { phase: "rollback", name: "test" },
    after: taken,
    touched: [1],
  },
  {
    title: "goes back with none when one of them cannot",
    before: text(...config([1], "parent: test"), ...made([1, 5])),
    asked: { phase: "rollback", name: "test" },
    after: text(...config([1], "parent: test"), ...made([1, 5])),
    error: VOLUME_FAILURES.check,
  },
  {
    title: "goes back under no guest that still runs",
    before: taken,
    asked: { phase: "rollback", name: "test", trouble: "no-stop" },
    after: taken,
    error: "unable to rollback vm 100: vm is running",
  },
];

test.each(cases)("$title", async ({ before, asked, after, error, touched = [], removed = [] }) => {
  const outcome: Outcome = await runCase(before, { vmid: 100, ...asked });
  expect(outcome).toEqual({ error, text: after, touched, removed });
});
