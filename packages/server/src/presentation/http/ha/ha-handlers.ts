// PVE's /cluster/ha. One line for each method; what they mean is in application/ha.
import { given } from "@gpve/contracts/given.ts";
import { vmidOfSid, type HaResource, type HaRuleRecord } from "@gpve/domain/ha/collections.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { splitList } from "@gpve/domain/schema/list.ts";
import type { MovableGuests } from "../../../application/guest/movable-guests.ts";
import type { HaConfig } from "../../../application/ha/ha-config.ts";
import type { HaRules } from "../../../application/ha/ha-rules.ts";
import type { HaStatus } from "../../../application/ha/ha-status.ts";

export interface HaHandlerDeps {
  readonly config: HaConfig;
  readonly rules: HaRules;
  readonly status: HaStatus;
  readonly movable: Pick<MovableGuests, "require" | "requireReady">;
}

export function createHaHandlers({ config, rules, status, movable }: HaHandlerDeps): PveHandlers {
  const shown = (resource: HaResource) => ({ ...resourceRow(resource), digest: config.digest() });
  const shownRule = (rule: HaRuleRecord, faults: ReadonlyMap<string, string>) => {
    const fault = faults.get(rule.rule);
    const errors = fault === undefined ? {} : { errors: { resources: [fault] } };
    return { ...ruleRow(rule), ...errors, digest: config.digest("rules") };
  };
  const groupDigest = () => config.digest("groups");
  const tell = (line: string, ctx: RequestContext): Promise<void> =>
    config.command(line, ctx.actor?.authid ?? "");
  const move = async (
    kind: "migrate" | "relocate",
    { sid: text, node }: { readonly sid: string; readonly node: string },
    ctx: RequestContext,
  ) => {
    const sid = config.sid(text);
    config.requireManaged(sid);
    // As with PVE, whose manager finds nothing to do.
    if (config.isOn(sid, node)) return { sid, "requested-node": node };
    config.requireTaker(sid, node);
    const { together, blocking } = rules.effectsOf(sid, node);
    if (blocking.length === 0) {
      const vmid = vmidOfSid(sid);
      // One that is relocated is stopped first: a backup of it, say, may have ended by then.
      if (kind === "migrate") movable.requireReady(vmid, node, true);
      movable.require(vmid, node, { isStopped: kind === "relocate" });
      await tell(`${kind} ${sid} ${node}`, ctx);
    }
    return {
      sid,
      "requested-node": node,
      ...(together.length === 0 ? {} : { "comigrated-resources": together }),
      ...(blocking.length === 0 ? {} : { "blocking-resources": blocking }),
    };
  };
  return {
    "GET /cluster/ha/status/current": () => status.current(),
    "GET /cluster/ha/status/manager_status": () => status.managerStatus(),
    "POST /cluster/ha/status/arm-ha": async (_params, ctx) => {
      await tell("arm-ha", ctx);
      return null;
    },
    "POST /cluster/ha/status/disarm-ha": async (params, ctx) => {
      await tell(`disarm-ha ${params["resource-mode"]}`, ctx);
      return null;
    },
    "GET /cluster/ha/resources": ({ type }) => config.resources(type).map(shown),
    "POST /cluster/ha/resources": async ({ sid, type, ...options }) => {
      await config.addResource(sid, type, options);
      return null;
    },
    "GET /cluster/ha/resources/{sid}": ({ sid }) => shown(config.resource(sid)),
    "PUT /cluster/ha/resources/{sid}": async ({ sid, delete: remove, digest, ...options }) => {
      await config.setResource(sid, options, { remove: splitList(remove ?? ""), digest });
      return null;
    },
    "DELETE /cluster/ha/resources/{sid}": async ({ sid, purge }) => {
      await config.removeResource(sid, purge ?? true);
      return null;
    },
    "POST /cluster/ha/resources/{sid}/migrate": (params, ctx) => move("migrate", params, ctx),
    "POST /cluster/ha/resources/{sid}/relocate": (params, ctx) => move("relocate", params, ctx),
    "GET /cluster/ha/rules": (filter) => {
      const faults = rules.faults();
      return rules.list(filter).map((rule) => shownRule(rule, faults));
    },
    "POST /cluster/ha/rules": async ({ rule, type, ...options }) => {
      await rules.add(rule, type, options);
      return null;
    },
    "GET /cluster/ha/rules/{rule}": ({ rule }) => shownRule(rules.get(rule), rules.faults()),
    "PUT /cluster/ha/rules/{rule}": async ({ rule, type, delete: remove, digest, ...options }) => {
      await rules.set(rule, type, options, { remove: splitList(remove ?? ""), digest });
      return null;
    },
    "DELETE /cluster/ha/rules/{rule}": async ({ rule }) => {
      await rules.remove(rule);
      return null;
    },
    "GET /cluster/ha/groups": () =>
      config.groups().map((group) => ({ ...groupRow(group), digest: groupDigest() })),
    "POST /cluster/ha/groups": async ({ group, nodes, restricted, nofailback, comment }) => {
      const flags = { restricted: restricted ?? false, nofailback: nofailback ?? false };
      await config.addGroup({ group, nodes, ...flags, ...given({ comment }) });
      return null;
    },
    "GET /cluster/ha/groups/{group}": ({ group }) => ({
      ...groupRow(config.group(group)),
      digest: groupDigest(),
    }),
    "PUT /cluster/ha/groups/{group}": async ({ group, delete: remove, digest, ...options }) => {
      await config.setGroup(group, options, { remove: splitList(remove ?? ""), digest });
      return null;
    },
    "DELETE /cluster/ha/groups/{group}": async ({ group }) => {
      await config.removeGroup(group);
      return null;
    },
  };
}

function resourceRow({ sid, state, group, comment, ...more }: HaResource): Record<string, unknown> {
  return {
    sid,
    type: sid.split(":")[0],
    state,
    max_restart: more.maxRestart,
    max_relocate: more.maxRelocate,
    failback: more.failback ? 1 : 0,
    "auto-rebalance": more.autoRebalance ? 1 : 0,
    ...given({ group, comment }),
  };
}

function ruleRow({ resources, order, strict, disable, ...rule }: HaRuleRecord): Record<string, unknown> {
  return {
    ...rule,
    resources: resources.join(","),
    order,
    ...(strict === undefined ? {} : { strict: strict ? 1 : 0 }),
    ...(disable === undefined ? {} : { disable: disable ? 1 : 0 }),
  };
}

function groupRow(group: {
  readonly restricted: boolean;
  readonly nofailback: boolean;
}): Record<string, unknown> {
  const { restricted, nofailback } = group;
  return { ...group, type: "group", restricted: restricted ? 1 : 0, nofailback: nofailback ? 1 : 0 };
}
