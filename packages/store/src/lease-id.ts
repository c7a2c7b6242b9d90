import { randomBytes } from "node:crypto";

/** Of somebody who names none: positive, as etcd's are. */
export function newLeaseId(): bigint {
  return (randomBytes(8).readBigUInt64BE() >> 1n) | 1n;
}
