import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { stringify } from "yaml";
import { describe, expect, test } from "vitest";
import { Gpvectl } from "../../testing/run-gpvectl.ts";
import { parseManifests } from "./manifests.ts";

const kinds = [
  {
    kind: "Tenant",
    plural: "tenants",
    aliases: ["tenant", "pool"],
    description: "Who owns guests.",
    verbs: ["list", "get"],
    columns: [
      { header: "NAME", field: "metadata.name" },
      { header: "GUESTS", field: "status.guests", format: "list" },
      { header: "AGE", field: "metadata.creationTimestamp", format: "age" },
      { header: "COMMENT", field: "spec.comment", wide: true },
    ],
    describe: [{ title: "Members", fields: ["status.guests", "status.owner", "status.none"] }],
    appliable: true,
  },
  { kind: "Thing", plural: "things", aliases: [], verbs: [], columns: [], describe: [] },
];
const dev = {
  apiVersion: "gpve.io/v1",
  kind: "Tenant",
  metadata: {
    name: "dev",
    labels: { tier: "web" },
    resourceVersion: "7",
    creationTimestamp: "2026-01-02T03:00:00Z",
  },
  spec: { comment: "hello" },
  status: { guests: [100, 101], owner: { name: "joe", since: 3 } },
};

async function withKinds(): Promise<Gpvectl> {
  const ctl = await Gpvectl.create();
  ctl.api.on("GET /api/v1", { body: { kinds } });
  ctl.api.on("GET /api/v1/tenants/dev", { body: dev });
  ctl.api.on("GET /api/v1/tenants", { body: { metadata: { resourceVersion: "9" }, items: [dev] } });
  return ctl;
}

describe("a VM", () => {
  const vm = (name: string) => ({
    kind: "VirtualMachine",
    apiVersion: "gpve.io/v1",
    metadata: { name, resourceVersion: "1" },
    spec: { running: true },
  });

  test("is found by its VMID or its name, and a name that is none says where to look", async () => {
    await using ctl = await Gpvectl.create();
    const kind = { ...kinds[1], kind: "VirtualMachine", plural: "virtualmachines", aliases: ["vm"] };
    ctl.api.on("GET /api/v1", { body: { kinds: [kind, kinds[0]] } });
    ctl.api.on("GET /api/v1/virtualmachines/101", { body: vm("101") });
    ctl.api.on("DELETE /api/v1/virtualmachines/101", { body: vm("101") });
    ctl.api.pve("GET /cluster/resources", [
      { type: "qemu", vmid: 101, name: "web", node: "n1" },
      { type: "qemu", vmid: 102, name: "twin", node: "n1" },
      { type: "qemu", vmid: 103, name: "twin", node: "n1" },
    ]);
    for (const name of ["101", "web"]) {
      expect((await ctl.run(["get", "vm", name])).out).toBe("NAME\n101\n");
      expect((await ctl.run(["describe", "vm", name])).out).toContain("Name:              101");
      expect(await ctl.run(["delete", "vm", name])).toMatchObject({ code: 0 });
    }
    expect((await ctl.run(["get", "vm", "nosuch"])).err).toBe(
      "gpvectl: cannot get vm nosuch on https://fake:8006: there is no VM nosuch. See what there is: gpvectl vm list.\n",
    );
    expect((await ctl.run(["describe", "vm", "twin"])).err).toContain(
      "several VMs are called twin: 102, 103. Name one by its VMID.",
    );
    ctl.api.on("GET /api/v1/tenants/nope", {
      status: 404,
      body: { error: { code: "object.not_found", message: "there is no Tenant 'nope'" } },
    });
    expect((await ctl.run(["get", "tenant", "nope"])).err).toContain("gpvectl get tenants.");
  });
});

describe("get", () => {
  test("lists by the columns the server names, wide ones on request", async () => {
    await using ctl = await withKinds();
    expect((await ctl.run(["get", "pool"])).out).toBe("NAME  GUESTS    AGE\ndev   100,101  4m5s\n");
    expect((await ctl.run(["get", "tenants", "dev", "-o", "wide"])).out).toBe(
      "NAME  GUESTS    AGE  COMMENT\ndev   100,101  4m5s  hello\n",
    );
    await ctl.run(["get", "tenants", "-l", "a=b", "--field-selector", "c=d", "--limit", "1"]);
    expect(ctl.api.last("GET /api/v1/tenants").query.toString()).toBe(
      "labelSelector=a%3Db&fieldSelector=c%3Dd&limit=1",
    );
  });

  test("prints one object, or a list, for programs", async () => {
    await using ctl = await withKinds();
    expect(JSON.parse((await ctl.run(["get", "tenants", "dev", "-o", "json"])).out)).toEqual(dev);
    expect(JSON.parse((await ctl.run(["get", "tenants", "-o", "json"])).out)).toEqual({
      apiVersion: "gpve.io/v1",
      kind: "TenantList",
      items: [dev],
    });
  });

  test("knows the kinds, and says so when there is none of a name", async () => {
    await using ctl = await withKinds();
    expect((await ctl.run(["get", "kinds"])).out).toContain(
      "Tenant  tenants  tenant,pool  list,get  Who owns guests.",
    );
    expect(await ctl.run(["get", "vms"])).toEqual({
      code: 5,
      out: "",
      err: 'gpvectl: cannot get vms on https://fake:8006: there is no kind "vms"; known: tenants, things. See: gpvectl get --help.\n',
    });
    ctl.api.on("GET /api/v1/things", { body: { items: [] } });
    expect((await ctl.run(["get", "things"])).err).toBe("No things.\n");
  });

  test("--watch prints a row per change", async () => {
    await using ctl = await withKinds();
    const watch = async (argv: readonly string[]): Promise<string> => {
      const abort = new AbortController();
      ctl.api.on("GET /api/v1/tenants", {
        stream: (async function* () {
          yield `id: 7\ndata: ${JSON.stringify({ type: "ADDED", object: dev })}\n\n`;
          const other = { ...dev, metadata: { name: "other" } };
          yield `id: 8\ndata: ${JSON.stringify({ type: "DELETED", object: other })}\n\n`;
          abort.abort();
        })(),
      });
      return (await ctl.run(argv, { signal: abort.signal })).out;
    };
    expect(await watch(["get", "tenants", "-w"])).toBe(
      "EVENT     NAME  GUESTS    AGE\nADDED     dev   100,101  4m5s\nDELETED   other  100,101     -\n",
    );
    expect(JSON.parse(await watch(["get", "tenants", "dev", "-w", "-o", "json"]))).toEqual({
      type: "ADDED",
      object: dev,
    });
  });
});

test("--watch shows everything again after a gap, and ends with any other failure", async () => {
  await using ctl = await withKinds();
  const gone = { code: "store.compacted", detail: "changes after 3 are not known any more" };
  const streams = [
    `id: 3\nevent: ADDED\ndata: ${JSON.stringify(dev)}\n\nevent: ERROR\ndata: ${JSON.stringify(gone)}\n\n`,
    `id: 9\nevent: ADDED\ndata: ${JSON.stringify(dev)}\n\nevent: ERROR\ndata: {"code":"auth.required","detail":"over"}\n\n`,
  ];
  ctl.api.on("GET /api/v1/tenants", () => ({
    stream: (async function* () {
      yield streams.shift() ?? "";
    })(),
  }));
  const ran = await ctl.run(["get", "tenants", "-w"]);
  expect(ran.code).toBe(3);
  expect(ran.out).toBe(
    "EVENT     NAME  GUESTS    AGE\nADDED     dev   100,101  4m5s\nADDED     dev   100,101  4m5s\n",
  );
  expect(ran.err).toContain("Some changes were missed; showing everything again.\n");
  expect(ctl.api.last("GET /api/v1/tenants").query.get("resourceVersion")).toBeNull();
});

test("describe shows the groups the kind names, or spec and status", async () => {
  await using ctl = await withKinds();
  expect((await ctl.run(["describe", "tenant", "dev"])).out).toBe(
    [
      "Name:              dev",
      "Kind:              Tenant",
      "Labels:",
      "  tier: web",
      "Created:           2026-01-02T03:00:00Z",
      "Version:           7",
      "Members:",
      "  Guests:          100,101",
      "  Owner:",
      "    name: joe",
      "    since: 3",
      "",
    ].join("\n"),
  );
  const thing = {
    apiVersion: "gpve.io/v1",
    kind: "Thing",
    metadata: { name: "t" },
    spec: { qemuVersion: 9, parts: [{ a: 1 }, { a: 2, b: "x" }], Spec: [{ c: 1 }] },
  };
  ctl.api.on("GET /api/v1/things/t", { body: thing });
  expect((await ctl.run(["describe", "thing", "t"])).out).toContain(
    "Spec:\n  QEMU version:    9\n  Parts:\n    A  B\n    1  -\n    2  x\n",
  );
  expect(JSON.parse((await ctl.run(["describe", "thing", "t", "-o", "json"])).out)).toEqual(thing);
  const capacity = { cpu: 8, memory: 2 ** 30, storage: { local: 2 ** 20 }, gpus: 0 };
  ctl.api.on("GET /api/v1/things/t", { body: { ...thing, spec: { capacity } } });
  expect((await ctl.run(["describe", "thing", "t"])).out).toContain(
    "  Capacity:\n    cpu: 8\n    memory: 1.0 GiB\n    storage:\n      local: 1.0 MiB\n    gpus: 0\n",
  );
  const figures = { diskBytes: 2 ** 30, use: { cpu: 0.25, memory: { total: 2 ** 20 }, uptimeSeconds: 61 } };
  ctl.api.on("GET /api/v1/things/t", { body: { ...thing, spec: figures } });
  expect((await ctl.run(["describe", "thing", "t"])).out).toContain(
    "Spec:\n  Disk:            1.0 GiB\n  Use:\n    cpu: 25.0 %\n    memory:\n      total: 1.0 MiB\n    uptime: 1m1s\n",
  );
});

describe("apply, diff and delete", () => {
  const items = [
    { kind: "Tenant", name: "new", action: "create", changes: [] },
    {
      kind: "Tenant",
      name: "dev",
      action: "update",
      changes: [
        { path: "spec.comment", op: "replace", before: "a", after: "b" },
        { path: "metadata.labels.x", op: "add", after: "y" },
        { path: "metadata.labels.z", op: "remove", before: "w" },
      ],
    },
    { kind: "Tenant", name: "old", action: "unchanged", changes: [] },
  ];
  const planText = [
    "+ Tenant new: create",
    "~ Tenant dev: update",
    '    ~ spec.comment: "a" -> "b"',
    '    + metadata.labels.x: "y"',
    '    - metadata.labels.z: "w"',
    "  Tenant old: unchanged",
    "",
  ].join("\n");
  const upid = "UPID:n1:1:";

  test("apply sends all documents of files, folders and standard input, waits, and says what changed", async () => {
    await using ctl = await withKinds();
    ctl.api
      .on("POST /api/v1/apply", { status: 202, body: { items, task: upid } })
      .pve(`GET /nodes/n1/tasks/${upid}/status`, { status: "stopped", exitstatus: "OK" })
      .pve(`GET /nodes/n1/tasks/${upid}/log`, []);
    await mkdir(join(ctl.home, "dir/sub"), { recursive: true });
    const file = (name: string): string => stringify({ ...dev, metadata: { name } });
    await writeFile(join(ctl.home, "dir/b.yaml"), `${file("b1")}---\n${file("b2")}---\n`);
    await writeFile(join(ctl.home, "dir/sub/c.json"), JSON.stringify({ kind: "List", items: [dev] }));
    await writeFile(join(ctl.home, "dir/readme.md"), "not this");
    const ran = await ctl.run(["apply", "-f", "dir", "-f", "-"], { stdin: file("in") });
    expect(ran).toEqual({ code: 0, out: planText, err: "1 created, 1 updated, 1 unchanged\n" });
    const body = JSON.parse(ctl.api.last("POST /api/v1/apply").body) as {
      objects: { metadata: { name: string } }[];
    };
    expect(body.objects.map((object) => object.metadata.name)).toEqual(["b1", "b2", "dev", "in"]);
  });

  test("apply fails with the task, and does nothing with --dry-run or when an item is refused", async () => {
    await using ctl = await withKinds();
    const stdin = stringify(dev);
    ctl.api
      .on("POST /api/v1/apply", { status: 202, body: { items, task: upid } })
      .pve(`GET /nodes/n1/tasks/${upid}/status`, { status: "stopped", exitstatus: "disk full" })
      .pve(`GET /nodes/n1/tasks/${upid}/log`, [{ n: 1, t: "step" }], 1);
    expect(await ctl.run(["apply", "-f", "-"], { stdin })).toMatchObject({
      code: 1,
      err: `  step\ngpvectl: cannot apply the objects on https://fake:8006: disk full. Its log: gpvectl task follow ${upid}\n`,
    });
    expect((await ctl.run(["apply", "-f", "-", "--no-wait", "-o", "json"], { stdin })).code).toBe(0);
    const refused = {
      kind: "Tenant",
      name: "x",
      action: "refused",
      changes: [],
      problem: { code: "access.denied", detail: "no Pool.Allocate" },
    };
    ctl.api.on("POST /api/v1/plan", { body: { items: [refused], applicable: false } });
    expect(await ctl.run(["apply", "-f", "-", "--dry-run"], { stdin })).toMatchObject({
      code: 4,
      out: "! Tenant x: refused\n    no Pool.Allocate\n",
    });
    ctl.api.on("POST /api/v1/apply", {
      status: 403,
      headers: { "content-type": "application/problem+json" },
      body: { code: "access.denied", detail: "nothing was changed", data: { items: [refused] } },
    });
    expect(await ctl.run(["apply", "-f", "-"], { stdin })).toMatchObject({
      code: 4,
      out: "! Tenant x: refused\n    no Pool.Allocate\n",
      err: expect.stringContaining("nothing was changed"),
    });
  });

  test("diff exits 1 when something differs and 0 when nothing does", async () => {
    await using ctl = await withKinds();
    const stdin = stringify(dev);
    ctl.api.on("POST /api/v1/plan", { body: { items, applicable: true } });
    expect(await ctl.run(["diff", "-f", "-"], { stdin })).toEqual({
      code: 1,
      out: planText,
      err: "1 to create, 1 to update, 1 unchanged\n",
    });
    ctl.api.on("POST /api/v1/plan", { body: { items: [items[2]], applicable: true } });
    expect((await ctl.run(["diff", "-f", "-", "-o", "json"], { stdin })).code).toBe(0);
  });

  test("a virtual cluster is the one of its tenant, in files and as TENANT/NAME", async () => {
    await using ctl = await withKinds();
    const kind = { ...kinds[1], kind: "VirtualCluster", plural: "vclusters", aliases: ["vc"] };
    ctl.api.on("GET /api/v1", { body: { kinds: [kind] } });
    const object = { ...dev, kind: "VirtualCluster", metadata: { ...dev.metadata, name: "demo" } };
    const asked: string[] = [];
    for (const verb of ["GET", "DELETE"])
      ctl.api.on(`${verb} /api/v1/tenants/lab/eu/vclusters/demo`, () => {
        asked.push(verb);
        return { body: object };
      });
    const item = { kind: "VirtualCluster", name: "demo", namespace: "lab/eu", action: "unchanged" };
    ctl.api.on("POST /api/v1/plan", { body: { items: [{ ...item, changes: [] }], applicable: true } });
    const stdin = stringify(object);
    expect((await ctl.run(["diff", "-f", "-"], { stdin })).out).toContain(
      "VirtualCluster lab/eu/demo: unchanged",
    );
    expect((await ctl.run(["delete", "-f", "-"], { stdin })).out).toContain(
      "Deleted VirtualCluster lab/eu/demo.",
    );
    expect((await ctl.run(["get", "vc", "lab/eu/demo"])).code).toBe(0);
    expect((await ctl.run(["delete", "vc", "lab/eu/demo"])).code).toBe(0);
    expect(asked).toEqual(["DELETE", "GET", "DELETE"]);
  });

  test("delete takes names or files, last first", async () => {
    await using ctl = await withKinds();
    const gone: string[] = [];
    for (const name of ["a", "b"]) {
      ctl.api.on(`DELETE /api/v1/tenants/${name}`, () => {
        gone.push(name);
        return { body: dev };
      });
    }
    expect((await ctl.run(["delete", "tenant", "a"])).out).toBe("Deleted tenant a.\n");
    const plan = (...names: string[]): void => {
      const items = names.map((name) => ({ kind: "Tenant", name, action: "unchanged", changes: [] }));
      ctl.api.on("POST /api/v1/plan", { body: { items, applicable: true } });
    };
    plan("a", "b");
    await ctl.run(["delete", "-f", "-"], { stdin: stringify(dev) });
    expect(gone).toEqual(["a", "b", "a"]);
    ctl.api.on("DELETE /api/v1/tenants/a", {
      status: 404,
      headers: { "content-type": "application/problem+json" },
      body: { code: "object.not_found", detail: "no tenant a" },
    });
    expect((await ctl.run(["delete", "tenant", "a"])).code).toBe(5);
    expect(await ctl.run(["delete", "tenant", "a", "--ignore-not-found"])).toMatchObject({
      code: 0,
      out: "tenant a is gone already.\n",
    });
    expect((await ctl.run(["delete"])).err).toContain("name a kind and at least one object");
    plan("");
    expect((await ctl.run(["delete", "-f", "-"], { stdin: stringify(dev) })).err).toContain("has no name");
  });
});

describe("manifests", () => {
  test("errors name the file and the line", () => {
    expect(() => parseManifests("apiVersion: v1\nkind: [", "x.yaml")).toThrow(/^x\.yaml line 2: /);
    expect(() => parseManifests("apiVersion: v1\nkind: A\n---\nspec: {}\n", "x.yaml")).toThrow(
      "x.yaml line 4: the object has no apiVersion",
    );
    expect(() => parseManifests("3", "x.yaml")).toThrow("the object has no apiVersion");
    expect(parseManifests("", "x.yaml")).toEqual([]);
    expect(parseManifests("---\n---\n", "x.yaml")).toEqual([]);
  });

  test("of a hundred thousand levels, however written, are refused with the reason", () => {
    const head = "apiVersion: gpve.io/v1\nkind: Tenant\nspec:";
    const deep = 100_000;
    const texts = [
      `${head} ${"[".repeat(deep)}${"]".repeat(deep)}`,
      `${head} ${"{a: ".repeat(deep)}`,
      `${head}\n ${"- ".repeat(deep)}x`,
      `${head} ${"[".repeat(65)}${"]".repeat(65)}`,
      `${head} &all [*all]`,
    ];
    for (const text of texts)
      expect(() => parseManifests(text, "x.yaml")).toThrow(/^x\.yaml.*: nested deeper than 64 levels$/);
    expect(parseManifests(`${head} ${"[".repeat(60)}${"]".repeat(60)}`, "x.yaml")).toHaveLength(1);
  });

  test("missing files and empty input are refused", async () => {
    await using ctl = await Gpvectl.create();
    expect((await ctl.run(["apply"])).err).toContain("no file is named; give -f FILE");
    expect((await ctl.run(["apply", "-f", "nowhere.yaml"])).err).toContain("cannot read");
    expect((await ctl.run(["apply", "-f", "-"])).err).toContain("holds no objects");
  });

  test("any list of objects survives being written and read, and no text crashes the reader", () => {
    const object = fc.record({
      apiVersion: fc.constant("gpve.io/v1"),
      kind: fc.constantFrom("Tenant", "User"),
      metadata: fc.record({ name: fc.string({ minLength: 1 }) }),
      spec: fc.dictionary(
        fc.string({ minLength: 1 }).filter((key) => key !== "__proto__"),
        fc.string(),
      ),
    });
    fc.assert(
      fc.property(fc.array(object), (objects) => {
        const text = objects.map((one) => stringify(one)).join("---\n");
        expect(parseManifests(text, "x")).toEqual(objects);
      }),
    );
    fc.assert(
      fc.property(fc.string(), (text) => {
        try {
          parseManifests(text, "x");
        } catch (err) {
          expect(err).toMatchObject({ code: "request.invalid" });
        }
      }),
    );
  });
});
