// The ways out of Failed: do again what failed, or say that it is seen to.
import { AppError } from "@gpve/contracts/errors.ts";
import { privilege } from "@gpve/contracts/v1/permission.ts";
import type { GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { Collection } from "@gpve/store/records/port.ts";
import type { Asking, NodeCalls } from "../node/call-agent.ts";
import { requireMay } from "../v1/authorisation.ts";
import type { VmPhases } from "./vm-phases.ts";

const RESET_STATE = "reset-state";

/** Does nothing but be there: the work that ended last is what the phase follows from, and this one has ended well. */
export const resetStateOperation: OperationDefinition = {
  type: RESET_STATE,
  steps: [{ name: "note", run: ({ log }) => log("the failure before this is seen to") }],
};

export interface FailedVmDeps {
  readonly phases: Pick<VmPhases, "of">;
  readonly guests: Pick<Collection<GuestRecord>, "get">;
  readonly engine: Pick<OperationEngine, "submit">;
  readonly calls: Pick<NodeCalls, "call">;
}

export interface VmOnNode {
  readonly node: string;
  readonly vmid: string;
}

export class FailedVms {
  readonly #deps: FailedVmDeps;

  constructor(deps: FailedVmDeps) {
    this.#deps = deps;
  }

  /** Answers with the UPID of the new try. */
  async retry(vm: VmOnNode, ctx: Asking): Promise<string> {
    this.#judge(vm, ctx);
    const type = this.#failed(vm);
    if (type !== "qmstart")
      throw new AppError(
        "feature.unsupported",
        `VM ${vm.vmid}: what failed was ${type}, whose parameters are not kept; ask for it again, reset the state, or delete the VM`,
      );
    const params = { vmid: vm.vmid };
    const route = "POST /nodes/{node}/qemu/{vmid}/status/start";
    return String((await this.#deps.calls.call(vm.node, route, params, ctx)).data);
  }

  async resetState(vm: VmOnNode, ctx: Asking, requestId: string): Promise<string> {
    this.#judge(vm, ctx);
    this.#failed(vm);
    const { upid } = await this.#deps.engine.submit({
      type: RESET_STATE,
      resources: [`phase/${vm.vmid}`],
      subject: vm.vmid,
      actor: ctx.actor?.authid ?? "",
      requestId,
    });
    return upid;
  }

  #judge({ node, vmid }: VmOnNode, { actor, access }: Asking): void {
    requireMay(privilege(`/vms/${vmid}`, "VM.PowerMgmt"), { actor, access }, {});
    const known = this.#deps.guests.get(vmid)?.value;
    if (known?.node !== node)
      throw new AppError("object.not_found", `there is no VM ${vmid} on node '${node}'`);
  }

  /** What failed. */
  #failed({ vmid }: VmOnNode): string {
    const { phase, last } = this.#deps.phases.of(vmid);
    if (phase !== "Failed" || last === undefined)
      throw new AppError("object.conflict", `VM ${vmid} has not failed: it is ${phase}`);
    return last.type;
  }
}
