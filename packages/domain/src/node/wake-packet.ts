/** A magic packet on its way out. */
export interface WakePacket {
  readonly bytes: Uint8Array;
  readonly broadcast: string;
  /** The card it leaves by; undefined: as the routes say. */
  readonly iface: string | undefined;
}
