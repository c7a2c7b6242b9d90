// Templates: made once for a version and role, cloned from, replaced when the version changes, kept while somebody's disks
// read from them, and gone with the cluster.
import { expect, test } from "vitest";
import { templateName } from "../cluster/templates.ts";
import { stepCommand, stepText } from "../plan/step-text.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { emptyWorld, madeWorld, testDesired } from "../testing/test-desired.ts";
import { destroySteps } from "./destroy.ts";
import { makeTrace } from "./make-trace.ts";
import type { World } from "./world.ts";

const wanted = (templates: object, more: object = {}) =>
  testDesired(
    testCluster({ controlPlane: { count: 1 }, pools: [{ name: "worker", count: 1 }], templates, ...more }),
  );
const kinds = (steps: readonly { kind: string; subject: string }[], from: RegExp) =>
  steps.filter(({ kind }) => from.test(kind)).map(({ kind, subject }) => `${kind} ${subject}`);

test("without a word about templates machines are made from the image", () => {
  const { steps } = makeTrace(wanted({}), emptyWorld(wanted({})));
  expect(kinds(steps, /^template|clone/)).toEqual([]);
  expect(kinds(steps, /^guest.create/)).toHaveLength(2);
});

test("each role has its template under the VMID of the file, tagged, and machines are copies of it", () => {
  const desired = wanted({ controlPlane: 998, worker: 999, tags: ["golden"], nodes: ["pve2"] });
  const { steps, world } = makeTrace(desired, emptyWorld(desired));
  const made = steps.flatMap((step) => (step.kind === "template.create" ? [step] : []));
  expect(made.map(({ place }) => place)).toEqual([
    { host: "pve2", vmid: 998 },
    { host: "pve2", vmid: 999 },
  ]);
  expect(made[0]?.config["tags"]).toBe("golden;talos-prod;talos-template");
  expect(made[0]?.config["scsi0"]).toContain("import-from=local:import/talos-v1.13.9-");
  expect(made[0]?.config).not.toHaveProperty("ipconfig0");
  expect(made[0]?.subject).toMatch(/^prod-tpl-cp-v1-13-9-[0-9a-f]{6}$/);
  expect(steps.filter(({ kind }) => kind === "image.ensure")).toHaveLength(1);
  const clone = steps.find((step) => step.kind === "guest.clone");
  expect(clone).toMatchObject({ from: { host: "pve2", vmid: 998 }, isFull: true, hostname: "prod-cp-1" });
  expect(kinds(steps, /^guest/).slice(0, 4)).toEqual([
    "guest.clone prod-cp-1",
    "guest.change prod-cp-1",
    "guest.resize prod-cp-1",
    "guest.start prod-cp-1",
  ]);
  const change = steps.find((step) => step.kind === "guest.change");
  expect(change?.changes.map(({ key }) => key)).toEqual(
    expect.arrayContaining(["smbios1", "net0", "ipconfig0", "onboot", "description"]),
  );
  expect(makeTrace({ ...desired, beginning: { machine: "prod-cp-1", doneAt: "then" } }, world).steps).toEqual(
    [],
  );
  expect(steps.slice(0, 4).map((step) => stepText(step))).toContain(
    `+ create the template ${made[0]?.subject}: VMID 998 on pve2`,
  );
  expect(clone === undefined ? "" : stepCommand(clone)).toMatch(
    /^qm clone 998 2000 --name prod-cp-1 .* --full 1/,
  );
});

test("disks of a local storage are cloned where they lie: a template on each node that needs it", () => {
  const desired = wanted({ clone: "linked" }, { pools: [{ name: "worker", count: 3 }] });
  const { steps } = makeTrace(desired, { ...emptyWorld(desired), sharingDisks: new Set() });
  const made = steps.flatMap((step) => (step.kind === "template.create" ? [step.place] : []));
  expect(made.map(({ vmid }) => vmid)).toEqual([9000, 9001, 9002, 9003]);
  const clones = steps.flatMap((step) => (step.kind === "guest.clone" ? [step] : []));
  expect(clones.every(({ from, place }) => from.host === place.host)).toBe(true);
});

test("pools that need another image or other hardware have another template", () => {
  const desired = wanted(
    { clone: "full" },
    {
      pools: [
        { name: "worker", count: 1 },
        { name: "gpu", count: 1, extensions: ["siderolabs/nvidia"] },
        { name: "old", count: 1, machine: { bios: "seabios" } },
      ],
    },
  );
  const { steps } = makeTrace(desired, emptyWorld(desired));
  expect(kinds(steps, /^template.create/)).toHaveLength(4);
});

function upgraded(templates: object, world: (made: World) => World = (made) => made) {
  const before = wanted(templates);
  const after = wanted(templates, { versions: { talos: "v1.13.10" } });
  const desired = {
    ...after,
    acceptsDowntime: true,
    beginning: { machine: "prod-cp-1", doneAt: "then" },
  };
  return { ...makeTrace(desired, world(madeWorld(before))), desired };
}

test("a new version's templates take the VMIDs of the old ones, which nothing hangs on", () => {
  const { steps, findings } = upgraded({ controlPlane: 998, worker: 999 });
  expect(findings).toEqual([]);
  const seen = steps.flatMap((step) =>
    step.kind.startsWith("template.") && "place" in step
      ? [`${step.kind} ${step.subject.replace(/-[0-9a-f]{6}$/, "")} ${step.place.vmid}`]
      : [],
  );
  expect(seen).toEqual([
    "template.delete prod-tpl-cp-v1-13-9 998",
    "template.delete prod-tpl-worker-v1-13-9 999",
    "template.create prod-tpl-cp-v1-13-10 998",
    "template.seal prod-tpl-cp-v1-13-10 998",
    "template.create prod-tpl-worker-v1-13-10 999",
    "template.seal prod-tpl-worker-v1-13-10 999",
  ]);
});

test("a template that linked clones read from stays, the new one gets another VMID, and the plan says so", () => {
  const { steps, kept } = upgraded({ clone: "linked", controlPlane: 998, worker: 999 });
  expect(kinds(steps, /^template.delete/)).toEqual([]);
  const made = steps.flatMap((step) => (step.kind === "template.create" ? [step.place.vmid] : []));
  expect(made).toEqual([9000, 9001]);
  expect(kept).toEqual([
    expect.stringMatching(/^template prod-tpl-cp-v1-13-9-\w+ \(VMID 998 on pve1\): .* prod-cp-1$/),
    expect.stringMatching(/ prod-worker-1$/),
  ]);
});

test("an old template that somebody else cloned from stays, and is not in the way", () => {
  const { steps } = upgraded({ controlPlane: 998, worker: 999 }, (made) => ({
    ...made,
    templates: made.templates.map((each) => ({ ...each, clones: each.place.vmid === 998 ? [777] : [] })),
  }));
  const made = steps.flatMap((step) => (step.kind === "template.create" ? [step.place.vmid] : []));
  expect(made).toEqual([9000, 999]);
});

test("a VMID that somebody else has is told, and so is a range that is used up", () => {
  const desired = wanted({ controlPlane: 998 });
  const taken = { ...emptyWorld(desired), vmids: new Map([["pve", new Set([998])]]) };
  expect(makeTrace(desired, taken).findings).toMatchObject([{ id: "template-vmid-taken" }]);
  const small = wanted({ clone: "full" }, { vmids: { template: "9000-9000" } });
  expect(makeTrace(small, emptyWorld(small)).findings).toMatchObject([{ id: "vmids-exhausted" }]);
});

test("one who was stopped before the template was sealed, or right after a clone, goes on", () => {
  const desired = wanted({ controlPlane: 998, worker: 999 });
  const all = makeTrace(desired, emptyWorld(desired));
  const unsealed = all.world.templates.map((each) => ({ ...each, isSealed: false }));
  const again = makeTrace(desired, { ...emptyWorld(desired), templates: unsealed });
  expect(kinds(again.steps, /^template/)).toEqual(unsealed.map(({ name }) => `template.seal ${name}`));
  const machine = all.world.machines.get("prod-cp-1");
  const guest = machine?.guest;
  if (machine === undefined || guest === undefined) throw new Error("it was made");
  const bare = { ...guest, isRunning: false, config: { ...guest.config, smbios1: "uuid=1" } };
  const machines = new Map(all.world.machines).set("prod-cp-1", {
    ...machine,
    guest: bare,
    talos: { state: "off" },
  });
  const { steps } = makeTrace({ ...desired, only: "infrastructure" }, { ...all.world, machines });
  const change = steps.find((step) => step.kind === "guest.change");
  expect(change?.changes).toContainEqual(expect.objectContaining({ key: "smbios1" }));
  expect(change?.changes).toContainEqual(expect.objectContaining({ key: "description" }));
});

test("with the cluster go its templates, unless somebody else's clone reads from one", () => {
  const desired = wanted({ clone: "linked", controlPlane: 998, worker: 999 });
  const world = madeWorld(desired);
  expect(kinds(destroySteps(world), /^template/)).toHaveLength(2);
  const templates = world.templates.map((each) => ({ ...each, clones: [...each.clones, 777] }));
  expect(kinds(destroySteps({ ...world, templates }), /^template/)).toEqual([]);
});

test("names fit a host name's part, however long the cluster's is", () => {
  const name = "a".repeat(40);
  const desired = testDesired(testCluster({ metadata: { name }, versions: { talos: "v1.13.9-alpha.0" } }));
  const [machine] = desired.machines;
  if (machine === undefined) throw new Error("it has machines");
  expect(templateName(desired.cluster, machine, "pve1").length).toBeLessThanOrEqual(63);
});
