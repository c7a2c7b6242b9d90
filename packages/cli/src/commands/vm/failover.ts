// A VM whose node is gone goes on from the copy that replication made.
import type { FailoverResult } from "@gpve/contracts/v1/bodies.ts";
import { given } from "@gpve/contracts/given.ts";
import type { CommandSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { findVm, vmArgument } from "./find-vm.ts";

export const vmFailover: CommandSpec = {
  name: "vm failover",
  summary: "let a virtual machine whose node is gone go on from its replica",
  details:
    "What was written since the last replication is lost; how old the copy is, is told. The replication job then goes the other way: once the lost node is back and has a copy, the same command, or a move, takes the VM back.",
  arguments: [vmArgument],
  options: [
    { flags: "--node-is-off", about: "you have made sure that its node is off: it cannot run there" },
    { flags: "--target <node>", about: "take this node's copy; else the newest" },
    { flags: "--drop-missing", about: "go on without disks that have no copy" },
    { flags: "--start", about: "start it there" },
    noWaitOption,
  ],
  examples: ["vm failover 100 --node-is-off --start", "vm failover web --node-is-off --target n3"],
  doing: (input) => `let VM ${input.arg("vm")} go on from its replica`,
  run: async (cli, input) => {
    const client = await cli.client();
    const { vmid } = await findVm(client, input.arg("vm"));
    const result = (await client.v1.post(`virtualmachines/${vmid}/failover`, {
      nodeIsOff: input.flag("nodeIsOff"),
      dropMissing: input.flag("dropMissing"),
      start: input.flag("start"),
      ...given({ target: input.text("target") }),
    })) as FailoverResult;
    const { to, copyOf, age, left, task } = result;
    for (const each of left) cli.out.note(`Left behind: ${each}.`);
    const done = `VM ${vmid} goes on at node ${to} from the copy of ${copyOf} (${age} old).`;
    if (task === undefined) cli.out.done(done);
    else await finishWork(cli, input, task, done);
  },
};
