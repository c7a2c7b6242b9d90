// The ways out of Failed.
import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { findVm, vmArgument } from "./find-vm.ts";

const WAYS = [
  {
    verb: "retry",
    summary: "do again what left a VM Failed",
    details: "A start that failed is tried again. Other work has to be asked for again by its own command.",
    done: (vmid: number) => `VM ${vmid} runs.`,
  },
  {
    verb: "reset-state",
    summary: "say that a VM's failure is seen to",
    details: "The VM is Stopped again; nothing else about it changes.",
    done: (vmid: number) => `VM ${vmid} is Stopped.`,
  },
] as const;

export const failedVmCommands: readonly CommandSpec[] = WAYS.map(({ verb, summary, details, done }) => ({
  name: `vm ${verb}`,
  summary,
  details,
  arguments: [vmArgument],
  options: [noWaitOption],
  examples: [`vm ${verb} 100`],
  doing: (input) => `${verb} VM ${input.arg("vm")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const { vmid, node } = await findVm(client, input.arg("vm"));
    const made = await client.v1.post(`nodes/${encodeURIComponent(node)}/vms/${vmid}/${verb}`, undefined);
    await finishWork(cli, input, isObject(made) ? made["task"] : undefined, done(vmid));
  },
}));
