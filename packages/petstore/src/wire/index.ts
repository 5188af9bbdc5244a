/**
 * The protocol between the pet store and its clients: messages and services generated from `proto/`, the headers, and
 * the client connection. The pet store and the operator share only this folder.
 */
export { type CalendarDay, dayFromText, dayText, isCalendarDay, nextDay } from './calendar-day.ts';
export {
  type ChannelOptions,
  type ChannelTls,
  openChannel,
  type PetStoreChannel,
  type SharedConnection,
} from './channel.ts';
export type { Date as WireDate } from './generated/google/type/date_pb.js';
export { DateSchema } from './generated/google/type/date_pb.js';
export {
  Health,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from './generated/grpc/health/v1/health_pb.js';
export {
  ServerReflection,
  type ServerReflectionRequest,
  type ServerReflectionResponse,
} from './generated/grpc/reflection/v1/reflection_pb.js';
export {
  type AddPetsReq,
  type ChangeSamplerReq,
  type DeletePetsReq,
  type Pet,
  PetSchema,
  PetStore,
  PetType,
  SamplerType,
  type SearchPetsReq,
  type UpdatePetsReq,
} from './generated/petstore_pb.js';
export { requestIdHeader, requestIdsKeptHeader } from './headers.ts';
export { trimmedName } from './trimmed-name.ts';
