import type { Fields } from "@gpve/contracts/json-object.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { QuotaView } from "../../quota/quota-view.ts";

/** Where a tenant's storage is bounded, volumes have what the cluster was given, and nothing unless that was said. */
export function boundedVolumes(quotas: Pick<QuotaView, "quotasOn">, tenant: string, spec: Fields): Fields {
  const { volumeBytes } = readVirtualClusterSpec(spec);
  return boundsStorage(quotas, tenant) && volumeBytes === undefined
    ? { ...spec, quota: { ...(spec["quota"] as Fields | undefined), storage: 0 } }
    : spec;
}

/** All of it, or that of one of its storages. */
export function boundsStorage(quotas: Pick<QuotaView, "quotasOn">, tenant: string): boolean {
  return quotas
    .quotasOn(tenant)
    .some(({ limits, requests }) =>
      [limits, requests].flatMap((each) => Object.keys(each)).some((key) => /^storage(?:\/|$)/.test(key)),
    );
}
