// Rules of where guests under HA may be.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { isObject } from "@gpve/client/response-error.ts";
import type { CommandSpec } from "../../command.ts";
import type { Input } from "../../input.ts";
import { showRows, watchOptions } from "../../watch.ts";
import { GUEST_ABOUT, sidsOf } from "./guest-sid.ts";

export const haRules: CommandSpec = {
  name: "ha rules",
  summary: "list the rules of where guests under HA may be",
  options: watchOptions,
  examples: ["ha rules"],
  doing: () => "list the rules of HA",
  run: async (cli, input) => {
    const { pve } = await cli.client();
    const columns = [
      { header: "RULE", field: "rule" },
      { header: "TYPE", field: "type" },
      { header: "RESOURCES", field: "resources" },
      { header: "NODES", field: "nodes" },
      { header: "STRICT", field: "strict" },
      { header: "AFFINITY", field: "affinity" },
      { header: "OFF", field: "disable" },
      { header: "NOT FOLLOWED", field: "fault" },
      { header: "COMMENT", field: "comment", wide: true },
    ] as const;
    await showRows(cli, input, columns, "There are no rules.", async () => {
      const rules = await pve.list("/cluster/ha/rules");
      return rules.map((rule) =>
        isObject(rule["errors"]) ? { ...rule, fault: Object.values(rule["errors"]).flat().join("; ") } : rule,
      );
    });
  },
};

export const haRuleAdd: CommandSpec = {
  name: "ha rule-add",
  summary: "say to which nodes guests belong, or which stay together or apart",
  arguments: [
    { name: "<rule>", about: "its name" },
    { name: "<guests...>", about: GUEST_ABOUT },
  ],
  options: [
    { flags: "--nodes <list>", about: "they belong to these, with priorities: n1:2,n2:1,n3" },
    { flags: "--strict", about: "with --nodes: nowhere else, even if that is nowhere" },
    { flags: "--together", about: "they run on one node" },
    { flags: "--apart", about: "they run on different nodes" },
    { flags: "--comment <text>", about: "free text" },
  ],
  examples: ["ha rule-add web-home vm:100 vm:101 --nodes n1:2,n2:1", "ha rule-add replicas 200 201 --apart"],
  doing: (input) => `add the rule ${input.arg("rule")}`,
  run: async (cli, input) => {
    const kind = kindOf(input);
    const client = await cli.client();
    await client.pve.post("/cluster/ha/rules", {
      rule: input.arg("rule"),
      resources: (await sidsOf(client, input.args("guests"))).join(","),
      ...kind,
      ...given({ comment: input.text("comment") }),
    });
    cli.out.done(`Added the rule ${input.arg("rule")}.`);
  },
};

/** A rule says one thing: nothing is guessed, and nothing that was typed is left out. */
function kindOf(
  input: Input,
):
  | { readonly type: "node-affinity"; readonly nodes: string; readonly strict: boolean }
  | { readonly type: "resource-affinity"; readonly affinity: "positive" | "negative" } {
  const nodes = input.text("nodes");
  const [together, apart, strict] = [input.flag("together"), input.flag("apart"), input.flag("strict")];
  if ([nodes !== undefined, together, apart].filter(Boolean).length !== 1)
    throw new AppError("request.invalid", "say one of --nodes, --together and --apart");
  if (nodes !== undefined) return { type: "node-affinity", nodes, strict };
  if (strict) throw new AppError("request.invalid", "--strict goes with --nodes");
  if (input.args("guests").length < 2)
    throw new AppError("request.invalid", `name more than one guest: --${together ? "together" : "apart"}`);
  return { type: "resource-affinity", affinity: apart ? "negative" : "positive" };
}

export const haRuleRemove: CommandSpec = {
  name: "ha rule-remove",
  summary: "remove a rule of HA",
  arguments: [{ name: "<rule>", about: "its name" }],
  examples: ["ha rule-remove web-home"],
  doing: (input) => `remove the rule ${input.arg("rule")}`,
  run: async (cli, input) => {
    const { pve } = await cli.client();
    await pve.delete("/cluster/ha/rules/{rule}", { rule: input.arg("rule") });
    cli.out.done(`Removed the rule ${input.arg("rule")}.`);
  },
};
