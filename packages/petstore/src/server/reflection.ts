import {
  createRegistry,
  type DescFile,
  type DescService,
  type MessageInitShape,
  type Registry,
  toBinary,
} from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { Code, type ServiceImpl } from '@connectrpc/connect';
import { cutText } from '@echoperator/runtime/client';
import type { ServerReflection, ServerReflectionRequest } from '../wire/generated/grpc/reflection/v1/reflection_pb.js';

type ReflectionResponse = NonNullable<
  MessageInitShape<(typeof ServerReflection)['method']['serverReflectionInfo']['output']>['messageResponse']
>;

/** Serves gRPC's reflection, which lets clients such as grpcurl discover services and messages. */
export function reflectionService(services: readonly DescService[]): ServiceImpl<typeof ServerReflection> {
  const described = new DescribedFiles(services.map(({ file }) => file));
  const respond = (request: ServerReflectionRequest): ReflectionResponse => {
    const asked = request.messageRequest;
    switch (asked.case) {
      case 'listServices':
        return { case: 'listServicesResponse', value: { service: services.map(({ typeName: name }) => ({ name })) } };
      case 'fileByFilename':
        return described.responseWith(described.fileByName(asked.value), asked.value);
      case 'fileContainingSymbol':
        return described.responseWith(described.fileOfSymbol(asked.value), asked.value);
      case 'fileContainingExtension':
      case 'allExtensionNumbersOfType':
        return notFound('no extensions');
      default:
        return { case: 'errorResponse', value: { errorCode: Code.InvalidArgument, errorMessage: 'empty request' } };
    }
  };
  return {
    async *serverReflectionInfo(requests) {
      for await (const request of requests) {
        yield { validHost: request.host, originalRequest: request, messageResponse: respond(request) };
      }
    },
  };
}

const notFound = (errorMessage: string): ReflectionResponse => ({
  case: 'errorResponse',
  value: { errorCode: Code.NotFound, errorMessage },
});

/** Longer than every name in the services. */
const maxSymbolLength = 256;

/** Descriptor files with all the files that they import. */
class DescribedFiles {
  readonly #byName = new Map<string, DescFile>();
  readonly #registry: Registry;

  constructor(files: readonly DescFile[]) {
    for (const file of files) for (const each of withImports(file)) this.#byName.set(each.proto.name, each);
    this.#registry = createRegistry(...this.#byName.values());
  }

  fileByName(name: string): DescFile | undefined {
    return this.#byName.get(name);
  }

  /** The file that declares the symbol. A method belongs to its service's file, a field to its message's. */
  fileOfSymbol(symbol: string): DescFile | undefined {
    // The loop below takes quadratic time.
    if (symbol.length > maxSymbolLength) return undefined;
    for (let name = symbol; name !== ''; name = name.slice(0, Math.max(name.lastIndexOf('.'), 0))) {
      const found = this.#registry.get(name);
      if (found !== undefined) return found.file;
    }
    return undefined;
  }

  responseWith(file: DescFile | undefined, asked: string): ReflectionResponse {
    if (file === undefined) return notFound(`not found: ${cutText(asked)}`);
    const fileDescriptorProto = withImports(file).map(({ proto }) => toBinary(FileDescriptorProtoSchema, proto));
    return { case: 'fileDescriptorResponse', value: { fileDescriptorProto } };
  }
}

const withImports = (file: DescFile): readonly DescFile[] => [
  ...new Set([file, ...file.dependencies.flatMap(withImports)]),
];
