import type { Fields } from "@gpve/contracts/json-object.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { QuotaView } from "../quota/quota-view.ts";

/** Where a tenant's storage is bounded, volumes have what the cluster was given, and nothing unless that was said. */
export function boundedVolumes(quotas: Pick<QuotaView, "quotasOn">, tenant: string, spec: Fields): Fields {
  const { volumeBytes } = readVirtualClusterSpec(spec);
  const isBounded = quotas
    .quotasOn(tenant)
    .some(({ limits, requests }) =>
      [limits, requests].flatMap((each) => Object.keys(each)).some((key) => /^storage(?:\/|$)/.test(key)),
    );
  return isBounded && volumeBytes === undefined
    ? { ...spec, quota: { ...(spec["quota"] as Fields | undefined), storage: 0 } }
    : spec;
}
