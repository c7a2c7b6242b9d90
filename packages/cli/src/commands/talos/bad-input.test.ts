// Whatever is wrong with what a person gives: id, evidence, cause, fix and an exit code, and nothing was touched.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DEPLOYER_PRIVILEGES, FakePlatform, platformAnswer } from "@gpve/talos/testing/fake-platform.ts";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

let gpvectl: Gpvectl;
beforeEach(async () => {
  gpvectl = await Gpvectl.create();
  await gpvectl.run([
    "talos",
    "init",
    "--yes",
    "--name",
    "prod",
    "--nodes",
    "pve1",
    "--preset",
    "lab",
    "--endpoint",
    "https://127.0.0.1:8006",
  ]);
});
afterEach(() => gpvectl[Symbol.asyncDispose]());

const at = (...path: readonly string[]) => join(gpvectl.home, ...path);

interface Report {
  readonly ok: boolean;
  readonly findings: readonly Readonly<Record<"id" | "evidence" | "cause" | "fix", string>>[];
}

/** What programs get of a failure. */
async function found(...args: readonly string[]): Promise<{ code: number; report: Report; err: string }> {
  const { code, out, err } = await gpvectl.run(["talos", ...args, "--output", "json"], {
    env: { GPVE_TOKEN: "root@pam!x=1" },
  });
  return { code, report: JSON.parse(out) as Report, err };
}

const one = (id: string, evidence: RegExp) => ({
  ok: false,
  findings: [
    {
      id,
      evidence: expect.stringMatching(evidence) as string,
      cause: expect.stringMatching(/\.$/) as string,
      fix: expect.stringMatching(/\.$/) as string,
    },
  ],
});

test.each(["preflight", "plan", "apply", "status", "verify"])(
  "%s of a wrong file names id, line, cause and fix",
  async (verb) => {
    const text = readFileSync(at("cluster.yaml"), "utf8");
    writeFileSync(at("cluster.yaml"), text.replace("nodeCIDR: 192.168.1.0/24", "nodeCIDR: 192.168.1.7/24"));
    const { code, report, err } = await found(verb);
    expect(code).toBe(2);
    expect(report).toMatchObject(
      one("network-invalid", /^line \d+: network\.nodeCIDR is 192\.168\.1\.7\/24/),
    );
    expect(err).toContain("[network-invalid]");
    expect(err).toContain("  Fix: Write it as 10.0.0.0/24");
    expect(existsSync(at("secrets.enc.yaml"))).toBe(false);
  },
);

test("validate tells cause and fix of each kind once, also to programs", async () => {
  const text = readFileSync(at("cluster.yaml"), "utf8");
  writeFileSync(at("cluster.yaml"), text.replaceAll("memoryMiB: 2048", "memoryMiB: 2Gi"));
  const { code, out, err } = await gpvectl.run(["talos", "validate"]);
  expect(code).toBe(2);
  expect(out.match(/not 2Gi \(which is 2048 MiB\) +unit-in-number/g)).toHaveLength(2);
  expect(err.match(/ {2}Cause: Units are part of the key's name/g)).toHaveLength(1);
  const json = await gpvectl.run(["talos", "validate", "-o", "json"]);
  expect(JSON.parse(json.out)).toMatchObject({
    problems: [{ id: "unit-in-number", fix: expect.stringContaining("8192") as string }, {}],
  });
});

test("a folder in the file's place is told as one", async () => {
  const { code, err } = await gpvectl.run(["talos", "validate", "-f", "."]);
  expect(code).toBe(2);
  expect(err).toContain(". cannot be read: it is a folder. Name the cluster's file with -f.");
});

test("a lock of another cluster", async () => {
  mkdirSync(at(".deployer", "prod"), { recursive: true });
  const lock = JSON.stringify({ version: 1, cluster: "dev", appliedAt: null, contract: null, machines: {} });
  writeFileSync(at(".deployer", "prod", "lock.json"), lock);
  for (const verb of ["plan", "apply", "status"]) {
    const { code, report } = await found(verb);
    expect(code).toBe(7);
    expect(report).toMatchObject(one("lock-of-another", /belongs to the cluster dev, not to prod$/));
  }
  expect(readFileSync(at(".deployer", "prod", "lock.json"), "utf8")).toBe(lock);
});

test("a wrong age key", async () => {
  expect(await gpvectl.run(["talos", "render", "--out", "out"])).toMatchObject({ code: 0 });
  const key = at(".config", "sops", "age", "keys.txt");
  const sealed = readFileSync(at("secrets.enc.yaml"), "utf8");
  const other = await Gpvectl.create();
  await other.run(["talos", "init", "--yes", "--name", "other", "--preset", "lab"]);
  writeFileSync(key, readFileSync(join(other.home, ".config", "sops", "age", "keys.txt"), "utf8"));
  await other[Symbol.asyncDispose]();
  const { code, report } = await found("render", "--out", "out");
  expect(code).toBe(4);
  expect(report).toMatchObject(one("age-key-wrong", /the keys found are those of age1.*encrypted for age1/));
  expect(readFileSync(at("secrets.enc.yaml"), "utf8")).toBe(sealed);
});

test("a snapshot that is not there, is empty, cut off or changed", async () => {
  const content = Buffer.from("members of etcd");
  const whole = Buffer.concat([content, createHash("sha256").update(content).digest()]);
  writeFileSync(at("empty"), "");
  writeFileSync(at("cut"), whole.subarray(0, -1));
  writeFileSync(at("changed"), Buffer.concat([Buffer.from("M"), whole.subarray(1)]));
  for (const verb of ["verify", "restore"]) {
    const missing = await found("etcd", verb, "nowhere");
    expect(missing).toMatchObject({
      code: 5,
      report: one("snapshot-missing", /there is no file .*nowhere$/),
    });
    const empty = await found("etcd", verb, "empty");
    expect(empty).toMatchObject({ code: 1, report: one("snapshot-damaged", /it has 0 bytes$/) });
    for (const file of ["cut", "changed"]) {
      const damaged = await found("etcd", verb, file);
      expect(damaged).toMatchObject({ code: 1, report: one("snapshot-damaged", /bytes do not end with/) });
      expect(damaged.err).toContain("Use another one. Nothing was changed.");
    }
    expect(await found("etcd", verb, ".")).toMatchObject({
      code: 2,
      report: one("snapshot-missing", /cannot be read/),
    });
  }
});

const matching = (pattern: RegExp): string => expect.stringMatching(pattern) as string;

test("a token without one privilege: which, where and how to give it", async () => {
  const platform = new FakePlatform();
  platform.privileges = () => DEPLOYER_PRIVILEGES.filter((name) => name !== "VM.Clone");
  const ofNode = ["storage", "network", "storage/local/content"].map((part) => `/nodes/pve1/${part}`);
  for (const path of [
    "/version",
    "/nodes",
    "/cluster/resources",
    "/pools",
    "/access/permissions",
    ...ofNode,
  ]) {
    gpvectl.api.on(`GET /api2/json${path}`, (request) => platformAnswer(platform, request));
  }
  const told = await gpvectl.run(["talos", "preflight"], { env: { GPVE_TOKEN: "root@pam!x=1" } });
  expect(told.err).toContain("On a node of the platform this gives what is missing:");
  expect(told.err).toMatch(/ {2}pveum acl modify \/vms --tokens "\$TOKEN" .* --roles TalosDeployer\n/);
  const { report: preflighted } = await found("preflight");
  expect(preflighted).toMatchObject({ commands: [/TOKEN=/, /role add/, /acl modify/].map(matching) });
  for (const verb of ["preflight", "apply"]) {
    const { code, report } = await found(verb, ...(verb === "apply" ? ["--yes"] : []));
    expect(code).toBe(1);
    const missing = report.findings.filter(({ id }) => id === "privilege-missing");
    expect(missing).toMatchObject([{ subject: "/vms", evidence: "missing: VM.Clone" }]);
    expect(missing[0]?.fix).toContain("pveum acl modify PATH");
  }
  expect(platform.done).toEqual([]);
  expect(existsSync(at("secrets.enc.yaml"))).toBe(false);
});

test("a lock that is a folder, a bundle that is none, a file that nobody can import", async () => {
  mkdirSync(at(".deployer", "prod", "lock.json"), { recursive: true });
  expect(await found("plan")).toMatchObject({ code: 2, report: one("lock-damaged", /EISDIR/) });
  rmSync(at(".deployer"), { recursive: true });
  writeFileSync(at("none.yaml"), "cluster: {}\n");
  expect(await found("secrets", "import", "none.yaml")).toMatchObject({
    code: 2,
    report: one("bundle-unusable", /has no cluster\.id$/),
  });
  expect(existsSync(at("secrets.enc.yaml"))).toBe(false);
  writeFileSync(at("terraform.tfvars"), "a = \n");
  expect(await found("import", "terraform.tfvars", "--out", "y.yaml")).toMatchObject({
    code: 2,
    report: one("import-unknown", /no (file of Terraform values|value of Terraform)/),
  });
  writeFileSync(at("terraform.tfvars"), 'cluster_name = "a"\n');
  expect(await found("import", "terraform.tfvars", "--out", "y.yaml")).toMatchObject({
    code: 2,
    report: one("import-no-control-plane", /names no control plane/),
  });
  expect(existsSync(at("y.yaml"))).toBe(false);
  const nowhere = await gpvectl.run(["talos", "secrets", "export", "no/where.yaml"]);
  expect(nowhere).toMatchObject({ code: 5 });
  expect(nowhere.err).toContain("there is no folder");
});
