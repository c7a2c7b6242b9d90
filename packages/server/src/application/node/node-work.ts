// What /api/v1 has nodes do and tell, beside objects.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { ComponentRequest, TaskLog, VmBackupRequest } from "@gpve/contracts/v1/bodies.ts";
import type { StorageDefaults } from "@gpve/domain/cluster/storage-defaults.ts";
import type { Asking, NodeCalls } from "./call-agent.ts";

interface TaskOnNode {
  readonly upid: string;
  readonly node: string;
}

interface VmOnNode {
  readonly node: string;
  /** As the path has it. */
  readonly vmid: string;
}

export interface ComponentWork extends ComponentRequest {
  readonly verb: "install" | "verify" | "import";
  readonly component: string;
}

export class NodeWork {
  readonly #calls: Pick<NodeCalls, "call">;
  readonly #storages: () => Required<StorageDefaults>;

  constructor(calls: Pick<NodeCalls, "call">, storages: () => Required<StorageDefaults>) {
    this.#calls = calls;
    this.#storages = storages;
  }

  async taskLog(
    { upid, node }: TaskOnNode,
    { start, limit }: { readonly start: number; readonly limit: number },
    ctx: Asking,
  ): Promise<TaskLog> {
    const params = { upid, start, limit };
    const reply = await this.#calls.call(node, "GET /nodes/{node}/tasks/{upid}/log", params, ctx);
    const lines = reply.data as readonly { n: number; t: string }[];
    return { lines: [...lines], total: reply.total ?? lines.length };
  }

  async cancelTask({ upid, node }: TaskOnNode, ctx: Asking): Promise<void> {
    await this.#calls.call(node, "DELETE /nodes/{node}/tasks/{upid}", { upid }, ctx);
  }

  /** Starts operation `nodeprobe`; answers with its UPID. The same request id gives the same operation. */
  async probe(node: string, ctx: Asking, requestId: string): Promise<string> {
    return (await this.#calls.call(node, "POST /gpve/nodes/{node}/probe", { requestId }, ctx)).data;
  }

  async images(node: string, wanted: string | undefined, ctx: Asking): Promise<unknown> {
    const storage = wanted ?? this.#storages().iso;
    return (await this.#calls.call(node, "GET /gpve/nodes/{node}/images", { storage }, ctx)).data;
  }

  /** Starts operation `imagepull` or `imagebuild`; answers with its UPID. */
  async makeImage(
    node: string,
    verb: "pull" | "build",
    image: { readonly name: string; readonly storage: string | undefined },
    ctx: Asking,
    requestId: string,
  ): Promise<string> {
    const { name, storage = this.#storages().iso } = image;
    const route = `POST /gpve/nodes/{node}/images/{image}/${verb}` as const;
    return (await this.#calls.call(node, route, { image: name, storage, requestId }, ctx)).data;
  }

  async components(node: string, ctx: Asking): Promise<unknown> {
    return (await this.#calls.call(node, "GET /gpve/nodes/{node}/components", {}, ctx)).data;
  }

  /** Starts operation `componentinstall`, `componentverify` or `componentimport`; answers with its UPID. */
  async component(
    node: string,
    { verb, ...asked }: ComponentWork,
    ctx: Asking,
    requestId: string,
  ): Promise<string> {
    const { component, version, from, path = "" } = asked;
    const base = "POST /gpve/nodes/{node}/components/{component}" as const;
    const common = { component, requestId };
    if (verb === "import") {
      const params = { ...common, version: version ?? "", path };
      return (await this.#calls.call(node, `${base}/import`, params, ctx)).data;
    }
    if (verb === "verify")
      return (await this.#calls.call(node, `${base}/verify`, { ...common, ...given({ version }) }, ctx)).data;
    const params = { ...common, ...given({ version, from }) };
    return (await this.#calls.call(node, `${base}/install`, params, ctx)).data;
  }

  /** Starts operation `vzdump`; answers with its UPID. */
  async backUp(vm: VmOnNode, request: VmBackupRequest, ctx: Asking, requestId: string): Promise<string> {
    const { storage = this.#storages().backup, ...backup } = request;
    const params = { vmid: vmidOf(vm), storage, backup, requestId };
    return (await this.#calls.call(vm.node, "POST /gpve/nodes/{node}/vms/{vmid}/backup", params, ctx)).data;
  }

  /** A PNG. */
  async screenshot(vm: VmOnNode, ctx: Asking): Promise<Uint8Array> {
    const route = "GET /gpve/nodes/{node}/vms/{vmid}/screenshot";
    const { data } = await this.#calls.call(vm.node, route, { vmid: vmidOf(vm) }, ctx);
    return Buffer.from(data.png, "base64");
  }

  async log(vm: VmOnNode, ctx: Asking): Promise<unknown> {
    const route = "GET /gpve/nodes/{node}/vms/{vmid}/log";
    return (await this.#calls.call(vm.node, route, { vmid: vmidOf(vm) }, ctx)).data;
  }
}

function vmidOf({ node, vmid }: VmOnNode): number {
  if (!/^[1-9]\d{0,8}$/.test(vmid))
    throw new AppError("object.not_found", `there is no VM ${vmid} on node ${node}`);
  return Number(vmid);
}
