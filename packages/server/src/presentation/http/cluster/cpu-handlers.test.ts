import { expect, it } from "vitest";
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { CpuModels } from "../../../application/cluster/cpu-models.ts";
import { openAccessFixture, type AccessFixture } from "../../../testing/access-fixture.ts";
import { createCpuHandlers } from "./cpu-handlers.ts";

const nodes = [
  {
    node: "n1",
    facts: {
      kernel: { machine: "x86_64" },
      accelerator: "tcg",
      qemu: {
        machines: ["pc", "q35", "pc-i440fx-7.2", "pc-q35-7.2", "pc-q35-10.0", "microvm"],
        cpuFlags: { understood: ["abm", "aes", "svm", "vmx"], tcg: ["aes", "svm"], kvm: ["aes"] },
      },
    },
  },
  { node: "n2", facts: undefined },
] as unknown as NodeView[];
const board: NodeBoard = {
  list: () => nodes,
  get: (name) => nodes.find(({ node }) => node === name),
  generation: () => 1,
};

async function open(): Promise<
  AccessFixture & { root: (route: string, params?: object) => Promise<unknown> }
> {
  const fixture = await openAccessFixture();
  Object.assign(fixture.handlers, createCpuHandlers({ models: new CpuModels(fixture.records), board }));
  return Object.assign(fixture, {
    root: (route: string, params: object = {}) => fixture.call("root@pam", route, { ...params }),
  });
}

const MODELS = "/cluster/qemu/custom-cpu-models";

it("keeps CPU models of the cluster, named with or without their prefix", async () => {
  await using world = await open();
  expect(
    await world.root(`POST ${MODELS}`, {
      cputype: "fast",
      "reported-model": "EPYC",
      flags: "+aes;-avx",
      hidden: 1,
    }),
  ).toBeNull();
  expect(await world.root(`POST ${MODELS}`, { cputype: "custom-fast", "reported-model": "EPYC" })).toContain(
    "custom CPU model 'fast' already exists",
  );
  const shown = {
    cputype: "custom-fast",
    "reported-model": "EPYC",
    flags: "+aes;-avx",
    hidden: 1,
    digest: expect.stringMatching(/^[0-9a-f]{40}$/) as string,
  };
  expect(await world.root(`GET ${MODELS}`)).toEqual([shown]);
  expect(await world.root(`GET ${MODELS}/{cputype}`, { cputype: "custom-fast" })).toEqual(shown);
  const change = (more: object) => world.root(`PUT ${MODELS}/{cputype}`, { cputype: "fast", ...more });
  expect(await change({ level: 30, delete: "flags" })).toBeNull();
  expect(await world.root(`GET ${MODELS}/{cputype}`, { cputype: "fast" })).toMatchObject({
    level: 30,
    hidden: 1,
  });
  expect(await world.root(`GET ${MODELS}/{cputype}`, { cputype: "fast" })).not.toHaveProperty("flags");
  expect(await change({ level: 31, digest: "0".repeat(40) })).toContain("detected modified configuration");
  expect(await change({ delete: "reported-model" })).toContain("unable to delete required option");
  expect(await change({ delete: "colour" })).toContain("unknown option 'colour'");
  expect(await world.root("GET /nodes/{node}/capabilities/qemu/cpu", { node: "n1" })).toContainEqual({
    name: "custom-fast",
    vendor: "AuthenticAMD",
    custom: 1,
  });
  expect(await world.root(`DELETE ${MODELS}/{cputype}`, { cputype: "fast" })).toBeNull();
  for (const verb of ["GET", "DELETE"])
    expect(await world.root(`${verb} ${MODELS}/{cputype}`, { cputype: "fast" })).toBe(
      "500 Custom cputype 'fast' not found\n",
    );
  expect(await world.root(`PUT ${MODELS}/{cputype}`, { cputype: "fast", level: 1 })).toContain("not found");
});

it("shows models only to those with a right on them", async () => {
  await using world = await open();
  await world.root(`POST ${MODELS}`, { cputype: "fast", "reported-model": "EPYC" });
  await world.root("POST /access/users", { userid: "joe@pve" });
  expect(await world.call("joe@pve", `GET ${MODELS}`)).toEqual([]);
  expect(
    await world.call("joe@pve", `POST ${MODELS}`, { cputype: "own", "reported-model": "EPYC" }),
  ).toContain("403");
});

it("lists CPU types, machines and flags as this cluster has them", async () => {
  await using world = await open();
  const types = (await world.root("GET /nodes/{node}/capabilities/qemu/cpu", { node: "n1" })) as {
    name: string;
  }[];
  expect(types).toContainEqual({ name: "host", vendor: "default", custom: 0 });
  expect(types).toContainEqual({ name: "x86-64-v2-AES", vendor: "default", custom: 0, abstract: 1 });
  await world.root(`POST ${MODELS}`, { cputype: "fast", "reported-model": "EPYC" });
  const arm = { node: "n1", arch: "aarch64" };
  const others = (await world.root("GET /nodes/{node}/capabilities/qemu/cpu", arm)) as { name: string }[];
  expect(others).toContainEqual({ name: "cortex-a72", vendor: "ARM", custom: 0 });
  expect(others.map(({ name }) => name)).not.toEqual(expect.arrayContaining(["host"]));
  expect(others.map(({ name }) => name)).not.toEqual(expect.arrayContaining(["custom-fast"]));
  expect(await world.root("GET /nodes/{node}/capabilities/qemu/machines", { node: "n1" })).toEqual([
    { id: "pc-q35-10.0", type: "q35", version: "10.0" },
    { id: "pc-i440fx-7.2", type: "i440fx", version: "7.2" },
    { id: "pc-q35-7.2", type: "q35", version: "7.2" },
  ]);
  expect(
    await world.root("GET /nodes/{node}/capabilities/qemu/machines", { node: "n1", arch: "aarch64" }),
  ).toEqual([]);
  expect(await world.root("GET /nodes/{node}/capabilities/qemu/machines", { node: "n2" })).toContain(
    "nothing is known of node 'n2' yet",
  );
  expect(await world.root("GET /nodes/{node}/capabilities/qemu/migration", { node: "n1" })).toEqual({
    "has-dbus-vmstate": 0,
  });
  const vm = (await world.root("GET /nodes/{node}/capabilities/qemu/cpu-flags", {
    node: "n1",
    accel: "tcg",
  })) as {
    name: string;
    "supported-on": string[];
  }[];
  expect(vm).toHaveLength(13);
  expect(vm.slice(0, 3).map((row) => [row.name, row["supported-on"]])).toEqual([
    ["nested-virt", ["n1"]],
    ["aes", ["n1"]],
    ["amd-no-ssb", []],
  ]);
  const all = (await world.root("GET /cluster/qemu/cpu-flags", { accel: "tcg" })) as {
    name: string;
    description?: string;
  }[];
  expect(all.map(({ name }) => name)).toEqual(["nested-virt", "aes", "svm", "abm", "vmx"]);
  expect(all[2]?.description).toContain("nested-virt");
  // KVM runs no guests there, whatever its QEMU says.
  const kvm = (await world.root("GET /cluster/qemu/cpu-flags")) as { "supported-on": string[] }[];
  expect(kvm.every((row) => row["supported-on"].length === 0)).toBe(true);
  expect(await world.root("GET /cluster/qemu/cpu-flags", { arch: "aarch64" })).toEqual([]);
  expect(
    await world.root("GET /nodes/{node}/capabilities/qemu/cpu-flags", { node: "n1", arch: "aarch64" }),
  ).toEqual([]);
});
