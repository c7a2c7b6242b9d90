import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { readCdiSpec } from "@gpve/domain/vcluster/devices/cdi-spec.ts";
import type { KeptVnode } from "@gpve/domain/vcluster/vnode/vnode.ts";
import { startNamedKubelet } from "../../../testing/named-kubelet.ts";
import { VnodeDevices } from "./vnode-devices.ts";

const KIND = "example.com/gpu";
const WAIT = { timeout: 30_000 };

function world() {
  const folder = mkdtempSync(join(tmpdir(), "gpve-vnode-devices-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  /** Device nodes are plain files here. */
  const nodes = join(folder, "dev");
  mkdirSync(nodes);
  let offered: readonly string[] = ["a", "b"];
  for (const name of offered) writeFileSync(join(nodes, name), "");
  const read = async () => {
    const devices = offered.map((name) => ({
      name,
      containerEdits: { deviceNodes: [{ path: `/dev/${name}`, hostPath: join(nodes, name) }] },
    }));
    const spec = readCdiSpec({ cdiVersion: "0.5.0", kind: KIND, devices });
    return { specs: spec === undefined ? [] : [spec], unread: [] };
  };
  const worker = (cluster: string, slot: number, count?: number): KeptVnode => {
    const name = `worker-${slot + 1}`;
    const vnode: KeptVnode = {
      slot,
      name,
      size: { cpus: 1, memoryBytes: 1 },
      isWanted: true,
      ...(count === undefined ? {} : { devices: { [KIND]: count } }),
    };
    const place = join(folder, "clusters", cluster, "vnodes", name);
    mkdirSync(place, { recursive: true });
    writeFileSync(join(place, "vnode.json"), JSON.stringify(vnode));
    return vnode;
  };
  const place = (cluster: string, { name }: KeptVnode) => join(folder, "clusters", cluster, "vnodes", name);
  const agent = (): VnodeDevices => {
    const devices = new VnodeDevices({ folder, read });
    onTestFinished(() => devices.retain([]));
    return devices;
  };
  const kubelet = async (cluster: string, vnode: KeptVnode) => {
    const started = await startNamedKubelet(join(place(cluster, vnode), "kubelet", "device-plugins"));
    onTestFinished(() => started.close());
    return started;
  };
  const offers = (names: readonly string[]) => {
    offered = names;
  };
  return { folder, nodes, worker, place, agent, kubelet, offers };
}

const described = (folder: string | undefined) =>
  readdirSync(folder ?? "").flatMap((file) => {
    const spec = JSON.parse(readFileSync(join(folder ?? "", file), "utf8")) as {
      devices: { name: string }[];
    };
    return spec.devices.map(({ name }) => name);
  });

describe("devices of workers", () => {
  test("are one worker's each, over restarts of the agent, until it goes", async () => {
    const { worker, place, agent } = world();
    const [first, second] = [worker("demo", 0, 1), worker("other", 0, 1)];
    const devices = agent();
    expect(described(await devices.settle("demo", first))).toEqual(["a"]);
    expect(described(await devices.settle("other", second))).toEqual(["b"]);
    // Another agent knows what the one before wrote.
    expect(described(await agent().settle("other", second))).toEqual(["b"]);
    const third = worker("demo", 1, 1);
    const refusal = `worker-2 is to have 1 ${KIND}: this node offers 2, of which 0 are its own and 0 are free`;
    await expect(devices.require("demo", [first, third])).rejects.toThrow(refusal);
    await expect(devices.settle("demo", third)).rejects.toThrow(refusal);
    rmSync(place("other", second), { recursive: true });
    // Who still believes that it is there makes nothing of it again.
    await devices.offer("other", second);
    expect(existsSync(place("other", second))).toBe(false);
    await devices.require("demo", [first, third]);
    expect(described(await devices.settle("demo", third))).toEqual(["b"]);
  });

  test("are counted together before any worker has them", async () => {
    const { worker, agent } = world();
    const three = [0, 1, 2].map((slot) => worker("demo", slot, 1));
    await agent().require("demo", three.slice(0, 2));
    await expect(agent().require("demo", three)).rejects.toThrow("0 are free");
  });

  test("leave nothing in a worker that is to have none, and give back what it had", async () => {
    const { worker, place, agent } = world();
    const plain = worker("demo", 0);
    const devices = agent();
    expect(await devices.settle("demo", plain)).toBeUndefined();
    await devices.require("demo", [plain]);
    await devices.offer("demo", plain);
    expect(readdirSync(place("demo", plain))).toEqual(["vnode.json"]);
    await devices.settle("demo", worker("demo", 0, 2));
    await expect(devices.require("other", [worker("other", 0, 1)])).rejects.toThrow("0 are free");
    await devices.settle("demo", worker("demo", 0));
    await devices.require("other", [worker("other", 0, 1)]);
  });

  test("are told to its kubelet, which names them to the runtime as CDI does", async () => {
    const { worker, agent, kubelet } = world();
    const vnode = worker("demo", 0, 1);
    const devices = agent();
    // No kubelet is there yet.
    await devices.offer("demo", vnode);
    const { devices: told, registrations, allocate } = await kubelet("demo", vnode);
    await devices.offer("demo", vnode);
    await vi.waitFor(() => expect(told.get(KIND)).toEqual({ a: "Healthy" }), WAIT);
    expect(await allocate(KIND, ["a"])).toEqual([`${KIND}=a`]);
    await expect(allocate(KIND, ["b"])).rejects.toThrow("is not there, or not this worker's");
    await devices.offer("demo", vnode);
    expect(registrations).toEqual([KIND]);
  });

  test("are told again to a kubelet that was started again, and by an agent that was", async () => {
    const { worker, agent, kubelet } = world();
    const vnode = worker("demo", 0, 1);
    const devices = agent();
    const first = await kubelet("demo", vnode);
    await devices.offer("demo", vnode);
    expect(first.registrations).toEqual([KIND]);
    first.close();
    const second = await kubelet("demo", vnode);
    await devices.offer("demo", vnode);
    await vi.waitFor(() => expect(second.devices.get(KIND)).toEqual({ a: "Healthy" }), WAIT);
    devices.retain([]);
    await agent().offer("demo", vnode);
    await vi.waitFor(() => expect(second.registrations).toHaveLength(2), WAIT);
    expect(await second.allocate(KIND, ["a"])).toEqual([`${KIND}=a`]);
  });

  test("that go are said to be unhealthy, stay the worker's, and come back", async () => {
    const { worker, agent, kubelet, nodes, offers } = world();
    const vnode = worker("demo", 0, 1);
    const devices = agent();
    const { devices: told, allocate } = await kubelet("demo", vnode);
    await devices.offer("demo", vnode);
    await vi.waitFor(() => expect(told.get(KIND)).toEqual({ a: "Healthy" }), WAIT);
    for (const [go, come] of [
      [() => rmSync(join(nodes, "a")), () => writeFileSync(join(nodes, "a"), "")],
      [() => offers(["b"]), () => offers(["a", "b"])],
    ] as const) {
      go();
      await devices.offer("demo", vnode);
      await vi.waitFor(() => expect(told.get(KIND)).toEqual({ a: "Unhealthy" }), WAIT);
      await expect(allocate(KIND, ["a"])).rejects.toThrow("is not there");
      expect(described(await devices.settle("demo", vnode))).toEqual([]);
      come();
      await devices.offer("demo", vnode);
      await vi.waitFor(() => expect(told.get(KIND)).toEqual({ a: "Healthy" }), WAIT);
    }
    expect(described(await devices.settle("demo", vnode))).toEqual(["a"]);
  });

  test("are not told to what only has the kubelet's name", async () => {
    const { worker, agent, kubelet, place } = world();
    const vnode = worker("demo", 0, 1);
    const dead = await kubelet("demo", vnode);
    dead.close();
    const folder = join(place("demo", vnode), "kubelet", "device-plugins");
    await agent().offer("demo", vnode);
    writeFileSync(join(folder, "kubelet.sock"), "");
    await agent().offer("demo", vnode);
    expect(existsSync(join(folder, "kubelet.sock"))).toBe(true);
  });
});
